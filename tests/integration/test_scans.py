"""DICOM and NIfTI files become the images that their own libraries show; a patient is in one split."""

from __future__ import annotations

import json
from pathlib import Path

import nibabel
import numpy as np
import pydicom
import pytest
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.pixels import apply_modality_lut, apply_windowing
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

import beam_tfrecords
from beam_tfrecords import BuildError

pytestmark = pytest.mark.nightly

LAYOUT = {"image": "image.array", "key": "key"}
PNG = {"image_encoding": "png", "bit_depth": 16, "channels": 1, "layout": {"image": "image.encoded", "key": "key"}}


def noise(seed: int, *shape: int, dtype: str = "uint16", most: int = 4096) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, most, shape).astype(dtype)


def write_dicom(path: Path, pixels: np.ndarray, *, patient: str = "P1", frames: int = 0, **attributes) -> Path:
    meta = FileMetaDataset()
    meta.TransferSyntaxUID, meta.MediaStorageSOPClassUID = ExplicitVRLittleEndian, CTImageStorage
    meta.MediaStorageSOPInstanceUID = generate_uid(entropy_srcs=[str(path)])
    file = Dataset()
    file.file_meta = meta
    file.SOPClassUID, file.SOPInstanceUID = meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID
    file.PatientID = patient
    file.Rows, file.Columns = pixels.shape[1:3] if frames else pixels.shape[:2]
    file.SamplesPerPixel = 3 if pixels.ndim - bool(frames) == 3 else 1
    file.PhotometricInterpretation = "RGB" if file.SamplesPerPixel == 3 else "MONOCHROME2"
    if file.SamplesPerPixel == 3:
        file.PlanarConfiguration = 0
    if frames:
        file.NumberOfFrames = frames
    file.BitsAllocated = 8 * pixels.itemsize
    file.BitsStored = 8 if pixels.itemsize == 1 else 12
    file.HighBit = file.BitsStored - 1
    file.PixelRepresentation = int(pixels.dtype.kind == "i")
    for name, value in attributes.items():
        setattr(file, name, value)
    file.PixelData = pixels.tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    file.save_as(path, enforce_file_format=True)
    return path


def build(folder: Path, **settings):
    given = {"input": str(folder / "in"), "output": str(folder / "out"), "source": "scans", "quiet": True}
    return beam_tfrecords.build(**given, report=False, **settings)


def images_of(dataset, split: str = "train") -> dict[str, np.ndarray]:
    return {example["key"]: example["image"][..., 0] for example in dataset.records(split)}


@pytest.mark.parametrize("shape", ["LINEAR", "LINEAR_EXACT"])
@pytest.mark.parametrize("colors", ["MONOCHROME1", "MONOCHROME2"])
def test_the_window_of_a_file_is_applied_as_pydicom_does(tmp_path, shape, colors):
    window = {"RescaleSlope": 2, "RescaleIntercept": -1024, "WindowCenter": [40, 300], "WindowWidth": [400, 1500]}
    path = tmp_path / "in/a.dcm"
    write_dicom(path, noise(0, 30, 40), **window, VOILUTFunction=shape, PhotometricInterpretation=colors)
    file = pydicom.dcmread(path)
    shown = apply_windowing(apply_modality_lut(file.pixel_array, file), file).astype(float)
    expected = (shown - shown.min()) / (shown.max() - shown.min()) * 65535
    (image,) = images_of(build(tmp_path, **PNG)).values()
    np.testing.assert_allclose(image, 65535 - expected if colors == "MONOCHROME1" else expected, atol=17)


def test_without_a_window_the_whole_range_is_shown(tmp_path):
    pixels = noise(0, 30, 40)
    write_dicom(tmp_path / "in/a.dcm", pixels, RescaleSlope=-1, RescaleIntercept=7)
    (image,) = images_of(build(tmp_path, **PNG)).values()
    np.testing.assert_array_equal(image, np.round((4095.0 - pixels) / 4095 * 65535))


def test_the_whole_range_can_be_asked_for(tmp_path):
    pixels = noise(0, 30, 40, dtype="int16") - 2048
    write_dicom(tmp_path / "in/a.dcm", pixels, WindowCenter=40, WindowWidth=400)
    (image,) = images_of(build(tmp_path, **PNG, window="full")).values()
    np.testing.assert_array_equal(image, np.round((pixels + 2048.0) / 4095 * 65535))


def test_frames_are_samples_with_keys_below_their_file(tmp_path):
    pixels = noise(0, 3, 30, 40)
    write_dicom(tmp_path / "in/heart.dcm", pixels, frames=3)
    images = images_of(build(tmp_path, layout=LAYOUT))
    assert sorted(images) == ["heart.dcm/000", "heart.dcm/001", "heart.dcm/002"]
    np.testing.assert_array_equal([images[key] for key in sorted(images)], pixels)


def test_frames_share_their_rescale_or_are_rejected(tmp_path):
    def frame(intercept: int) -> Dataset:
        group, of_frame = Dataset(), Dataset()
        group.RescaleSlope, group.RescaleIntercept = 1, intercept
        of_frame.PixelValueTransformationSequence = [group]
        return of_frame

    pixels = noise(0, 2, 30, 40)
    same, other = ([frame(-1000), frame(value)] for value in (-1000, 0))
    path = tmp_path / "in/a.dcm"
    write_dicom(path, pixels, frames=2, PerFrameFunctionalGroupsSequence=same)
    images = images_of(build(tmp_path, layout=LAYOUT))
    np.testing.assert_array_equal([images[key] for key in sorted(images)], pixels.astype(np.float32) - 1000)
    write_dicom(path, pixels, frames=2, PerFrameFunctionalGroupsSequence=other)
    with pytest.raises(beam_tfrecords.RequestError, match="frames differ in RescaleIntercept"):
        build(tmp_path, layout=LAYOUT, overwrite=True)


def test_color_is_stored_as_it_is(tmp_path):
    pixels = noise(0, 30, 40, 3, dtype="uint8", most=256)
    write_dicom(tmp_path / "in/skin.dcm", pixels)
    (example,) = build(tmp_path, image_encoding="png").records("train")
    np.testing.assert_array_equal(example["image"], pixels)


def test_a_patient_is_in_one_split(tmp_path):
    for number in range(40):
        write_dicom(tmp_path / f"in/{number}.dcm", noise(number, 8, 8), patient=f"P{number // 4}")
    dataset = build(tmp_path, layout=LAYOUT, splits={"train": 0.5, "test": 0.5})
    patients = [{int(key.split(".")[0]) // 4 for key in images_of(dataset, split)} for split in ("train", "test")]
    assert patients[0]
    assert patients[1]
    assert not patients[0] & patients[1]


def test_slices_of_a_volume_are_samples(tmp_path):
    volume = noise(0, 20, 30, 5, dtype="int16") - 2000
    (tmp_path / "in").mkdir()
    nibabel.save(nibabel.Nifti1Image(volume, np.eye(4)), tmp_path / "in/sub-01_T1w.nii.gz")
    images = images_of(build(tmp_path, layout=LAYOUT))
    assert sorted(images) == [f"sub-01_T1w.nii.gz/{number:03d}" for number in range(5)]
    np.testing.assert_array_equal([images[key] for key in sorted(images)], volume.transpose(2, 1, 0))
    shown = images_of(build(tmp_path, **PNG, overwrite=True))
    low, high = volume.min(), volume.max()
    expected = np.round((volume.transpose(2, 1, 0) - float(low)) / (int(high) - int(low)) * 65535)
    np.testing.assert_array_equal([shown[key] for key in sorted(shown)], expected)


def test_scaled_volumes_have_their_numbers(tmp_path):
    volume = (noise(0, 12, 10, 4) / 7).astype(np.float64)
    image = nibabel.Nifti2Image(volume, np.eye(4))
    image.set_data_dtype(np.int16)
    (tmp_path / "in").mkdir()
    nibabel.save(image, tmp_path / "in/a.nii")
    expected = np.asarray(nibabel.load(tmp_path / "in/a.nii").dataobj).transpose(2, 1, 0)
    images = images_of(build(tmp_path, layout=LAYOUT))
    np.testing.assert_array_equal([images[key] for key in sorted(images)], expected.astype(np.float32))


@pytest.mark.parametrize("name", ["a.dcm", "a.nii", "a.nii.gz"])
def test_a_damaged_file_is_a_failure_of_its_own(tmp_path, name):
    write_dicom(tmp_path / "in/good.dcm", noise(0, 30, 40))
    (tmp_path / "in" / name).write_bytes(b"no scan at all" * 100)
    with pytest.raises(BuildError, match="1 of 2 samples failed"):
        build(tmp_path)
    build(tmp_path, max_failures=0.5)
    (failure,) = map(json.loads, (tmp_path / "out/failures.jsonl").read_text().splitlines())
    assert (failure["key"], failure["reason"]) == (name, "corrupt")


def test_a_cut_file_is_a_failure(tmp_path):
    path = write_dicom(tmp_path / "in/a.dcm", noise(0, 30, 40))
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(BuildError, match="1 of 1 samples failed"):
        build(tmp_path)


def test_labels_come_from_a_pattern(tmp_path):
    for number, name in enumerate(("normal", "pneumonia")):
        write_dicom(tmp_path / f"in/{name}/{number}.dcm", noise(number, 8, 8))
    dataset = build(tmp_path, label_pattern=r"^(?P<label>\w+)/")
    assert dataset.class_names == ("normal", "pneumonia")
