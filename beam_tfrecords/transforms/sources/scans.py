"""The source for DICOM and NIfTI files: a sample for each frame or slice, with the patient as its group.

Files are decoded while they are listed: each frame becomes a gray or color image file, like that of any other source.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, RequestError, SampleError, Stage, describe_exception
from beam_tfrecords.extras import install_hint
from beam_tfrecords.features.contents import Content
from beam_tfrecords.transforms.images.raw_pixels import as_file
from beam_tfrecords.transforms.refs.sample_refs import SampleRef, one_image
from beam_tfrecords.transforms.sources.inputs import quote_input
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.partition import Partition, StagingFiles, find_files_below
from beam_tfrecords.transforms.sources.path_labels import PathPattern
from beam_tfrecords.transforms.sources.source import MakeSource, OpenRequest, Source
from beam_tfrecords.transforms.sources.source_spec import Window
from beam_tfrecords.transforms.sources.tally import Tally

_FILE = re.compile(r".*\.(dcm|dicom|nii|nii\.gz)", re.IGNORECASE)
# Library -> what it reads.
_READS = {"pydicom": "DICOM", "nibabel": "NIfTI"}
# A patient in a path of BIDS (bids-specification.readthedocs.io), the layout of most NIfTI datasets.
_SUBJECT = re.compile(r"(?:^|[/_])(sub-[A-Za-z0-9]+)(?=[/_])")
_WHITE = 65535
# Tables of DICOM in place of a slope, and of a window; sequences of its frames that have these.
_TABLES = ("ModalityLUTSequence", "VOILUTSequence")
_GROUPS = ("PixelValueTransformationSequence", "FrameVOILUTSequence")
# Shape of a window -> its width minus that of the numbers in it (DICOM PS3.3, C.11.2.1).
_EDGES = {"LINEAR": 1, "LINEAR_EXACT": 0}
_GZIP = b"\x1f\x8b"
# Size of the header of a NIfTI-2 file, which it begins with; in either byte order.
_NIFTI2 = (540).to_bytes(4, "little")
# Bytes that a compressed volume may take in memory.
_MOST_BYTES = 2 << 30


class Scan(NamedTuple):
    """The content of a file.

    Attributes:
      frames: the images, [H, W] or [H, W, 3].
      patient: identifies the patient; "" if the file does not.
      is_single: whether the file holds one image, not a sequence or volume.
    """

    frames: Iterator[np.ndarray]
    patient: str
    is_single: bool


def open_input(request: OpenRequest) -> MakeSource:
    """Finds the files.

    Raises:
      RequestError: there are none, or the library that reads them is not installed.
    """
    inputs, spec = request.inputs, request.spec
    files = find_files_below(inputs, _FILE, "DICOM or NIfTI file in it, .dcm, .dicom, .nii or .nii.gz")
    versions = dict[str, str]()
    for library in dict.fromkeys(_library_of(file.uri) for file in files):
        try:
            versions[library] = importlib.import_module(library).__version__
        except ImportError as error:
            raise RequestError(
                f"{quote_input(inputs.paths[0])}: {_READS[library]} files need an extra: {install_hint('medical')}",
                code="missing_extra",
            ) from error
    return functools.partial(ScanSource, files, spec.label_pattern, spec.window, versions)


class ScanSource(Source):
    """Lists the frames of DICOM files and the slices of NIfTI files.

    Args:
      files: the files.
      label_pattern: pattern that gives label and columns, and a group in place of the patient; None for none.
      window: as the setting.
      versions: library -> its version.
      needs: requested contents.
    """

    def __init__(
        self,
        files: Sequence[Partition],
        label_pattern: str | None,
        window: Window,
        versions: dict[str, str],
        needs: Needs,
    ) -> None:
        super().__init__(files)
        pattern = PathPattern.of(label_pattern, needs)
        self._describe(provides=pattern.contents | {Content.IMAGE}, **pattern.describe())
        self.notes += pattern.notes
        self._pattern, self._window, self._versions = pattern, window, versions
        self._are_arrays = Content.ARRAY in needs.contents

    def read(self, partition: Partition, tally: Tally, staging: StagingFiles) -> Iterator[SampleRef]:
        """Yields a reference to each image; a rejected one for a file that cannot be read to its end."""
        key = partition.key_prefix.rstrip("/") or storage.basename(partition.uri)
        library = _library_of(partition.uri)
        made = f"{library} {self._versions[library]} {'array' if self._are_arrays else self._window.value}"
        try:
            data = storage.read_bytes(partition.uri, version=partition.version)
            read = _read_dicom if library == "pydicom" else _read_nifti
            scan = read(data, None if self._are_arrays else self._window)
            values, subject = self._pattern.find(key), _SUBJECT.search(key)
            values["group"] = values.get("group") or scan.patient or (subject[1] if subject else key)
            for number, frame in enumerate(scan.frames):
                own = key if scan.is_single else f"{key}/{number:03d}"
                file = as_file(frame.tobytes(), shape=frame.shape, axes="HWC"[: frame.ndim], dtype=frame.dtype.str)
                place = staging.add([file], size=len(file), name=f"{partition.uri}#{number:03d}")
                yield SampleRef(
                    own,
                    one_image(place),
                    len(file),
                    f"{partition.fingerprint}@{number} {made}",
                    split=partition.split,
                    **values,
                )
        except SampleError as error:
            yield partition.rejected(error)


def _library_of(path: str) -> str:
    return "nibabel" if path.lower().endswith((".nii", ".nii.gz")) else "pydicom"


def _read_dicom(data: bytes, window: Window | None) -> Scan:
    """Reads a DICOM file.

    Args:
      window: None for the numbers of arrays: as in the file, or float32 if it rescales them.
    """
    import pydicom

    with _damage():
        file = pydicom.dcmread(io.BytesIO(data))
        pixels = file.pixel_array
        patient = str(file.get("PatientID") or file.get("StudyInstanceUID") or "")
        colors, bits, is_signed = file.PhotometricInterpretation, int(file.BitsStored), bool(file.PixelRepresentation)
        is_color, is_single = file.SamplesPerPixel > 1, int(file.get("NumberOfFrames") or 1) == 1
        slope, intercept = _find(file, "RescaleSlope"), _find(file, "RescaleIntercept")
        center, width = _find(file, "WindowCenter"), _find(file, "WindowWidth")
        shape, tables = file.get("VOILUTFunction", "LINEAR"), [one for one in _TABLES if one in file]
    slope, intercept = 1.0 if slope is None else slope, intercept or 0.0
    if colors == "PALETTE COLOR" or bits > 16 or (is_color and bits != 8):
        raise _rejected(FailureReason.UNSUPPORTED_MODE, f"DICOM of {colors} with {bits} bits")
    is_table = _TABLES[0] in tables or (window is Window.FILE and center is None and bool(tables))
    if is_table or (window is Window.FILE and center is not None and shape not in _EDGES):
        raise _rejected(FailureReason.UNSUPPORTED_MODE, f"DICOM with {', '.join(tables) or shape}, not a plain window")
    ends = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)
    low, high = sorted(end * slope + intercept for end in ends)
    if window is Window.FILE and center is not None and width is not None:
        low, high = center - width / 2, center + width / 2 - _EDGES[shape]
    is_plain = (slope, intercept, is_signed) == (1, 0, False)

    def frames() -> Iterator[np.ndarray]:
        for frame in [pixels] if is_single else pixels:
            if is_color or (window is None and is_plain):
                yield np.ascontiguousarray(frame)
                continue
            numbers = frame.astype(np.float32) * np.float32(slope) + np.float32(intercept)
            yield numbers if window is None else _stretch(numbers, low, high, inverted=colors == "MONOCHROME1")

    return Scan(frames(), patient, is_single)


def _read_nifti(data: bytes, window: Window | None) -> Scan:
    """Reads a NIfTI file: slices of the third axis, whose rows are the second axis and whose columns are the first."""
    import nibabel

    with _damage():
        raw = zlib.decompressobj(31).decompress(data, _MOST_BYTES) if data.startswith(_GZIP) else data
        is_second = _NIFTI2 in (raw[:4], raw[:4][::-1])
        volume: Any = (nibabel.Nifti2Image if is_second else nibabel.Nifti1Image).from_bytes(raw)
        shape, kind = volume.shape, volume.get_data_dtype()
        numbers = np.asanyarray(volume.dataobj)
        low, high = float(volume.header["cal_min"]), float(volume.header["cal_max"])
    if len(shape) < 2 or any(side > 1 for side in shape[3:]) or numbers.dtype.kind not in "uif":
        raise _rejected(FailureReason.UNSUPPORTED_MODE, f"NIfTI of shape {shape} and type {kind}; expected a volume")
    if numbers.dtype.kind in "ui" and max(abs(int(numbers.min())), abs(int(numbers.max()))) > 1 << 24:
        raise _rejected(FailureReason.UNSUPPORTED_MODE, f"NIfTI of {kind} whose numbers float32 does not hold")
    slices = numbers.reshape(*shape[:2], -1)
    if window is not None and (window is Window.FULL or not high > low):
        known = slices[np.isfinite(slices)]
        low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    is_plain = numbers.dtype in (np.uint8, np.uint16)

    def frames() -> Iterator[np.ndarray]:
        for number in range(slices.shape[2]):
            plane = np.ascontiguousarray(slices[..., number].T)
            if window is None:
                yield plane if is_plain else plane.astype(np.float32)
            else:
                yield _stretch(plane.astype(np.float32), low, high, inverted=False)

    return Scan(frames(), "", len(shape) == 2)


def _stretch(numbers: np.ndarray, low: float, high: float, *, inverted: bool) -> np.ndarray:
    """Returns gray of 16 bits: 0 for `low` and less, 65535 for `high` and more, NaN as 0."""
    shares = np.nan_to_num((numbers.astype(np.float64) - low) / max(high - low, 1e-12)).clip(0, 1)
    return np.round((1 - shares if inverted else shares) * _WHITE).astype(np.uint16)


def _find(file: Any, name: str) -> float | None:
    """Returns the first value of an attribute of a DICOM file, or of all of its frames; None if there is none.

    Raises:
      SampleError: frames have values of their own.
    """
    frames = [*file.get("SharedFunctionalGroupsSequence", ()), *file.get("PerFrameFunctionalGroupsSequence", ())]
    groups = [group for frame in frames for one in _GROUPS for group in frame.get(one, ())]
    values = {str(one.get(name)) for one in (file, *groups) if one.get(name) not in (None, "")}
    if len(values) > 1:
        raise _rejected(FailureReason.UNSUPPORTED_MODE, f"DICOM whose frames differ in {name}")
    found = [one.get(name) for one in (file, *groups) if one.get(name) not in (None, "")][:1]
    return next((float(one[0] if isinstance(one, Sequence) else one) for one in found), None)


@contextlib.contextmanager
def _damage() -> Iterator[None]:
    """Turns what the libraries raise about a file into a `SampleError`."""
    try:
        yield
    except (MemoryError, SampleError):
        raise
    except Exception as error:
        raise _rejected(FailureReason.CORRUPT, describe_exception(error)[:200]) from error


def _rejected(reason: FailureReason, detail: str) -> SampleError:
    return SampleError(Stage.LIST, reason, " ".join(detail.split()))
