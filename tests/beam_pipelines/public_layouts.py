"""How well-known public datasets lie on a disk, reduced to a few files, and what must come of each.

A tree is written as its files: `{1..3}` and `{a,b}` expand as in a shell. The layouts follow the datasets' own pages
and archives, or the copies on Kaggle where most people take them from.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from tests.refusals import Refusal

# split -> label -> samples; the label of an image without one is "".
Records: TypeAlias = Mapping[str, Mapping[str, int]]


@dataclasses.dataclass(frozen=True)
class Command:
    """A command that the user of a dataset writes, because the program does not offer it.

    Attributes:
      flags: as in a shell, with DIR for the input.
      records: what the command reads: split -> class -> samples, objects or texts; the class is "" without classes.
    """

    flags: str
    records: Records


@dataclasses.dataclass(frozen=True)
class Layout:
    """A public dataset.

    Attributes:
      name: of the dataset.
      files: the tree.
      records: what the tree is read as; None if it is refused.
      refused: why it is refused; None if it is read.
      suggestions: what each command of the refusal gives, in its order.
      tables: path -> text of the files that are tables.
      notes: what the summary says.
      root: folder below that is the input.
      recommended: the command that reads the labels that people train on: a number of a suggestion, or a command that
        the user writes.
      remark: what the page says about the labels; if the command reads none, why.
    """

    name: str
    files: str
    records: Records | None = None
    refused: Refusal | None = None
    suggestions: Sequence[Records] = ()
    tables: Mapping[str, str] = dataclasses.field(default_factory=dict)
    notes: str = ""
    root: str = ""
    recommended: int | Command = 0
    remark: str = ""

    def paths(self) -> Iterator[str]:
        """The files."""
        for word in self.files.split():
            yield from expand(word)


ANNOTATION = (
    "<annotation><object><name>cat</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>8</xmax><ymax>8</ymax></bndbox>"
    "</object></annotation>"
)


def expand(word: str) -> Iterator[str]:
    """The words that braces make of one."""
    match = re.search(r"\{([^{}]*)\}", word)
    if match is None:
        yield word.replace("+", " ")
        return
    start, dots, end = match[1].partition("..")
    inside = [f"{one:0{len(start)}d}" for one in range(int(start), int(end) + 1)] if dots else match[1].split(",")
    for one in inside:
        yield from expand(word[: match.start()] + one + word[match.end() :])


def rows(header: str, *lines: str) -> str:
    """A csv file."""
    return "\n".join([header, *lines, ""])


def lines(*rows: str) -> str:
    """A text file."""
    return "\n".join([*rows, ""])


def in_train(**labels: int) -> Records:
    """Records of one split."""
    return {"train": labels}


def unlabelled(**splits: int) -> Records:
    """Images without labels."""
    return {split: {"": count} for split, count in splits.items()}


def coco(*names: str, outlined: bool = False) -> str:
    """A file of COCO's annotations, with an object, and perhaps its outline, in the first image."""
    images = [{"id": number, "file_name": name, "width": 8, "height": 8} for number, name in enumerate(names)]
    annotation: dict[str, Any] = {"image_id": 0, "category_id": 1, "bbox": [1, 1, 4, 4]}
    if outlined:
        annotation["segmentation"] = [[1, 1, 5, 1, 5, 5]]
    content = {"images": images, "annotations": [annotation], "categories": [{"id": 1, "name": "cat"}]}
    return json.dumps(content)


_IDS = [f"{number:04d}" for number in range(1, 7)]
_CASSAVA = (
    "Cassava Bacterial Blight (CBB)",
    "Cassava Brown Streak Disease (CBSD)",
    "Cassava Green Mottle (CGM)",
    "Cassava Mosaic Disease (CMD)",
    "Healthy",
)
_GTSRB = "Width,Height,Roi.X1,Roi.Y1,Roi.X2,Roi.Y2,ClassId,Path"
_CELEBA_LABELS = {"train": {"['Male', 'Young']": 1, "['Male']": 1, "['Young']": 1, "[]": 1}}
_CELEBA_SPLITS = {"train": {"Male": 1, "Young": 1}, "validation": {"Male": 1, "Young": 1}, "test": {}}
_CELEBA = ("000001.jpg,1,-1", "000002.jpg,-1,1", "000003.jpg,1,1", "000004.jpg,-1,-1")
_AIRCRAFT = {"family": ("Boeing 707", "A320"), "manufacturer": ("Boeing", "Airbus"), "variant": ("707-320", "A320")}
_AIRCRAFT_SPLITS = {
    "train": ("0034309", "0034958"),
    "val": ("1025794", "0056978"),
    "trainval": ("0034309", "0034958"),
    "test": ("1236289", "2222222"),
}
_OBJECTS365 = (
    "images/v1/patch{0..1}/objects365_v1_0000000{1..2}.jpg",
    "images/v2/patch{16..17}/objects365_v2_0090873{1..2}.jpg",
)
_DIGITS = {str(digit): 1 for digit in range(10)}

LAYOUTS = (
    # Folders of classes, and of splits and classes: read without a word.
    Layout(
        "TensorFlow flowers",
        "LICENSE.txt daisy/{1..3}.jpg roses/{1..2}.jpg tulips/{1..2}.jpg",
        in_train(daisy=3, roses=2, tulips=2),
    ),
    Layout(
        "TensorFlow flowers, the folder above",
        "flower_photos/LICENSE.txt flower_photos/daisy/{1..3}.jpg flower_photos/roses/{1..2}.jpg",
        in_train(daisy=3, roses=2),
        notes="flower_photos/ only wraps",
    ),
    Layout(
        "cats_and_dogs_filtered",
        "vectorize.py train/{cats,dogs}/{1..2}.jpg validation/{cats,dogs}/3.jpg",
        {"train": {"cats": 2, "dogs": 2}, "validation": {"cats": 1, "dogs": 1}},
    ),
    Layout(
        "hymenoptera_data",
        "{train,val}/{ants,bees}/{1..2}.jpg",
        {"train": {"ants": 2, "bees": 2}, "validation": {"ants": 2, "bees": 2}},
    ),
    Layout(
        "ImageNet, torchvision's folders",
        "{train,val}/{n01440764,n01443537}/{1..2}.JPEG",
        {"train": {"n01440764": 2, "n01443537": 2}, "validation": {"n01440764": 2, "n01443537": 2}},
    ),
    Layout(
        "Imagenette",
        "{train,val}/{n01440764,n02102040}/{1..2}.JPEG",
        {"train": {"n01440764": 2, "n02102040": 2}, "validation": {"n01440764": 2, "n02102040": 2}},
        tables={"noisy_imagenette.csv": rows("path,noisy_labels_0", "train/n01440764/1.JPEG,n01440764")},
        notes="not read: noisy_imagenette.csv",
    ),
    Layout("MNIST as PNG", "{training,testing}/{0..9}/1.png", {"train": _DIGITS, "test": _DIGITS}),
    Layout(
        "CIFAR-10 as PNG",
        "{train,test}/{airplane,cat}/000{1..2}.png labels.txt",
        {"train": {"airplane": 2, "cat": 2}, "test": {"airplane": 2, "cat": 2}},
    ),
    Layout(
        "FER-2013 as folders",
        "{train,test}/{angry,happy}/{1..2}.jpg",
        {"train": {"angry": 2, "happy": 2}, "test": {"angry": 2, "happy": 2}},
    ),
    Layout(
        "Brain tumor MRI",
        "{Training,Testing}/{glioma,notumor}/{1..2}.jpg",
        {"train": {"glioma": 2, "notumor": 2}, "test": {"glioma": 2, "notumor": 2}},
    ),
    Layout(
        "Caltech-256",
        "{001.ak47,002.american-flag}/00{1..2}_0001.jpg",
        {"train": {"001.ak47": 2, "002.american-flag": 2}},
        root="256_ObjectCategories",
    ),
    Layout(
        "LFW, unpacked into a folder of its name",
        "lfw-deepfunneled/Aaron_Eckhart/Aaron_Eckhart_0001.jpg "
        "lfw-deepfunneled/Abel_Pacheco/Abel_Pacheco_000{1..2}.jpg",
        {"train": {"Aaron_Eckhart": 1, "Abel_Pacheco": 2}},
        notes="lfw-deepfunneled/ only wraps",
        root="lfw-deepfunneled",
    ),
    # Folders around the classes: read, and said.
    Layout(
        "PetImages (cats and dogs)",
        "readme.txt PetImages/{Cat,Dog}/{0..2}.jpg PetImages/{Cat,Dog}/Thumbs.db",
        in_train(Cat=3, Dog=3),
        notes="PetImages/ only wraps",
    ),
    Layout(
        "Stanford Dogs",
        "Images/{n02085620-Chihuahua,n02085782-Japanese}/{1..2}.jpg Annotation/n02085620-Chihuahua/1.xml",
        {"train": {"n02085620-Chihuahua": 2, "n02085782-Japanese": 2}},
        notes="Images/ only wraps",
    ),
    Layout(
        "UC Merced Land Use",
        "UCMerced_LandUse/Images/{agricultural,airplane}/{1..2}.tif",
        in_train(agricultural=2, airplane=2),
        notes="Images/ only wraps",
    ),
    Layout(
        "RAF-DB",
        "DATASET/{train,test}/{1..3}/{1..2}.jpg",
        {"train": {"1": 2, "2": 2, "3": 2}, "test": {"1": 2, "2": 2, "3": 2}},
        tables={"train_labels.csv": rows("image,label", "a.jpg,1")},
        notes="DATASET/ only wraps",
    ),
    Layout(
        "classes in numbered parts",
        "{part_1,part_2}/{cat,dog}/{1..2}.jpg",
        in_train(cat=4, dog=4),
        notes="part_1, part_2 are read as parts",
    ),
    Layout(
        "a folder of images in every class folder",
        "{cat,dog}/images/{1..2}.jpg",
        in_train(cat=2, dog=2),
        notes="images in the class folders are not classes",
    ),
    Layout(
        "splits below the classes",
        "{cat,dog}/train/{1..2}.jpg {cat,dog}/val/3.jpg",
        {"train": {"cat": 2, "dog": 2}, "validation": {"cat": 1, "dog": 1}},
        notes="train, val in the class folders are the splits",
    ),
    Layout(
        "SUN397",
        "a/{abbey,alley}/{1..2}.jpg c/church/{indoor,outdoor}/1.jpg c/canyon/1.jpg ClassName.txt",
        {"train": {"abbey": 2, "alley": 2, "church/indoor": 1, "church/outdoor": 1, "canyon": 1}},
        notes="a, c are the first letters",
    ),
    Layout(
        "Places365",
        "{train,val}/a/{airfield,alcove}/1.jpg {train,val}/b/bakery/shop/1.jpg",
        {split: {"airfield": 1, "alcove": 1, "bakery/shop": 1} for split in ("train", "validation")},
        notes="a, b are the first letters",
    ),
    Layout(
        "a class folder that is empty, and what computers add",
        "cat/{1..2}.jpg dog/{1..2}.jpg bird/.DS_Store __MACOSX/cat/._1.jpg cat/Thumbs.db .git/x.jpg",
        in_train(cat=2, dog=2),
        notes="no image in the folder bird",
    ),
    # Tables that name images.
    Layout(
        "Cassava leaf disease",
        "train_images/{0001..0006}.jpg test_images/0007.jpg",
        refused=Refusal("split_or_class", "input", says=["test_images, train_images"]),
        tables={
            "train.csv": rows("image_id,label", *(f"{one}.jpg,{int(one) % 3}" for one in _IDS)),
            "sample_submission.csv": rows("image_id,label", "0007.jpg,4"),
            "label_num_to_disease_map.json": json.dumps(dict(enumerate(_CASSAVA))),
        },
        suggestions=[in_train(**{"0": 2, "1": 2, "2": 2}), unlabelled(train=6, test=1)],
        recommended=Command(
            "--input=DIR/train.csv --image_column=image_id --image_root=DIR/train_images --label_column=label "
            "--class_names=DIR/label_num_to_disease_map.json",
            {"train": dict.fromkeys(_CASSAVA[:3], 2)},
        ),
    ),
    Layout(
        "APTOS 2019",
        "train_images/{0001..0006}.png test_images/0007.png",
        refused=Refusal("split_or_class", "input"),
        tables={
            "train.csv": rows("id_code,diagnosis", *(f"{one},{int(one) % 2}" for one in _IDS)),
            "test.csv": rows("id_code", "0007"),
            "sample_submission.csv": rows("id_code,diagnosis", "0007,0"),
        },
        suggestions=[in_train(**{"0": 3, "1": 3}), unlabelled(train=6, test=1)],
    ),
    Layout(
        "a table and one folder of images",
        "train_images/{0001..0006}.jpg",
        refused=Refusal("split_or_class", "input", says=["train_images"]),
        tables={"train.csv": rows("id,label", *(f"{one},{'cat' if int(one) % 2 else 'dog'}" for one in _IDS))},
        suggestions=[in_train(cat=3, dog=3), unlabelled(train=6)],
    ),
    Layout(
        "Dog breed identification",
        "train/{0001..0006}.jpg test/{0007..0008}.jpg",
        refused=Refusal("no_class_folders", "input", "label_pattern"),
        tables={
            "labels.csv": rows("id,breed", *(f"{one},{'pug' if int(one) % 2 else 'boxer'}" for one in _IDS)),
            "sample_submission.csv": rows("id,boxer,pug", "0007,0.5,0.5"),
        },
        suggestions=[in_train(pug=3, boxer=3), unlabelled(train=6, test=2)],
    ),
    Layout(
        "CIFAR-10 on Kaggle",
        "train/{1..6}.png test/{7..9}.png",
        refused=Refusal("no_class_folders", "input", "label_pattern"),
        tables={
            "trainLabels.csv": rows("id,label", *(f"{one},{'frog' if one % 2 else 'truck'}" for one in range(1, 7)))
        },
        suggestions=[in_train(frog=3, truck=3), unlabelled(train=6, test=3)],
    ),
    Layout(
        "Humpback whales",
        "train/{0001..0006}.jpg test/0007.jpg",
        refused=Refusal("no_class_folders", "input", "label_pattern"),
        tables={"train.csv": rows("Image,Id", *(f"{one}.jpg,w_{int(one) % 2}" for one in _IDS))},
        suggestions=[in_train(w_0=3, w_1=3), unlabelled(train=6, test=1)],
    ),
    Layout(
        "GTSRB on Kaggle",
        "Train/{0,1}/{00001..00003}.png Test/{00001..00002}.png Meta/{0,1}.png",
        refused=Refusal("split_or_class", "input"),
        tables={
            "Train.csv": rows(
                _GTSRB, *(f"27,2{n},5,5,22,20,{n % 2},Train/{n % 2}/0000{n // 2 + 1}.png" for n in range(6))
            ),
            "Test.csv": rows(_GTSRB, "53,54,6,5,48,49,1,Test/00001.png", "42,45,5,5,36,40,0,Test/00002.png"),
            "Meta.csv": rows("Path,ClassId,ShapeId,ColorId,SignId", "Meta/0.png,0,1,0,3.29", "Meta/1.png,1,1,0,3.29"),
        },
        suggestions=[in_train(**{"0": 3, "1": 3}), in_train(**{"0": 3, "1": 3}), unlabelled(train=6, test=2)],
        recommended=Command(
            "--input=train=DIR/Train.csv --input=test=DIR/Test.csv --image_column=Path --label_column=ClassId",
            {"train": {"0": 3, "1": 3}, "test": {"0": 1, "1": 1}},
        ),
    ),
    Layout(
        "HAM10000",
        "HAM10000_images_part_1/ISIC_{0001..0003}.jpg HAM10000_images_part_2/ISIC_{0004..0006}.jpg",
        refused=Refusal("no_class_folders", "input", "label_pattern", says=["HAM10000_images_part_1"]),
        tables={
            "HAM10000_metadata.csv": rows(
                "lesion_id,image_id,dx,dx_type,age,sex,localization",
                *(f"HAM_{one},ISIC_{one},{'nv' if int(one) % 2 else 'mel'},histo,50.0,male,back" for one in _IDS),
            )
        },
        suggestions=[unlabelled(train=6)],
        recommended=Command(
            "--input=DIR/HAM10000_metadata.csv '--image_path={image_id}.jpg' --label_column=dx "
            "--image_root=DIR/HAM10000_images_part_1 --image_root=DIR/HAM10000_images_part_2",
            in_train(nv=3, mel=3),
        ),
    ),
    Layout(
        "CelebA",
        "img_align_celeba/img_align_celeba/{000001..000004}.jpg",
        refused=Refusal("no_class_folders", "input", "label_pattern"),
        tables={
            "list_attr_celeba.csv": rows("image_id,Male,Young", *_CELEBA),
            "list_eval_partition.csv": rows(
                "image_id,partition", "000001.jpg,0", "000002.jpg,0", "000003.jpg,1", "000004.jpg,2"
            ),
            "list_bbox_celeba.csv": rows("image_id,x_1,y_1,width,height", "000001.jpg,95,71,226,313"),
        },
        suggestions=[_CELEBA_LABELS, unlabelled(train=4)],
        recommended=Command(
            "--input=DIR/list_attr_celeba.csv --image_column=image_id "
            "--image_root=DIR/img_align_celeba/img_align_celeba --label_columns=Male,Young "
            "--join=DIR/list_eval_partition.csv --split_column=partition --splits=train=0,validation=1,test=2",
            _CELEBA_SPLITS,
        ),
        remark="two of the 40 columns",
    ),
    Layout(
        "the test split of a competition",
        "train/{cat,dog}/{1..3}.jpg test/{1..4}.jpg",
        refused=Refusal("no_class_folders", "input"),
        suggestions=[
            {"train": {"cat": 3, "dog": 3}},
            {"train": {"cat": 3, "dog": 3}, "test": {"": 4}},
            unlabelled(train=6, test=4),
        ],
    ),
    Layout(
        "NIH chest X-rays",
        "images_001/images/{00000001_000,00000001_001}.png images_002/images/{00000002_000,00000003_000}.png",
        refused=Refusal("no_class_folders", "input", "label_pattern"),
        suggestions=[unlabelled(train=4)],
        tables={
            "Data_Entry_2017.csv": rows(
                "Image Index,Finding Labels,Follow-up #,Patient ID",
                "00000001_000.png,Cardiomegaly,0,1",
                "00000001_001.png,Cardiomegaly|Emphysema,1,1",
                "00000002_000.png,No Finding,0,2",
                "00000003_000.png,Hernia,0,3",
            ),
            "train_val_list.txt": lines("00000001_000.png", "00000001_001.png", "00000002_000.png"),
            "test_list.txt": lines("00000003_000.png"),
        },
        recommended=Command(
            "--input=DIR/Data_Entry_2017.csv '--image_column=Image Index' '--label_column=Finding Labels' "
            "'--label_separator=|' "
            "--image_root=DIR/images_001/images --image_root=DIR/images_002/images "
            "--join=train=DIR/train_val_list.txt --join=test=DIR/test_list.txt",
            {"train": {"Cardiomegaly": 2, "Emphysema": 1, "No Finding": 1}, "test": {"Hernia": 1}},
        ),
    ),
    Layout(
        "Great Barrier Reef",
        "train_images/video_{0,1}/{0,17}.jpg",
        refused=Refusal("images_and_masks", "input"),
        suggestions=[unlabelled(train=2)],
        tables={
            "train.csv": rows(
                "video_id,sequence,video_frame,sequence_frame,image_id,annotations",
                "0,40258,0,0,0-0,[]",
                "0,40258,17,17,0-17,\"[{'x': 1, 'y': 2, 'width': 5, 'height': 4}]\"",
                "1,8503,0,0,1-0,\"[{'x': 1, 'y': 2, 'width': 5, 'height': 4}, {'x': 0, 'y': 0, 'width': 2, "
                "'height': 2}]\"",
                "1,8503,17,17,1-17,[]",
            )
        },
        recommended=Command(
            "--input=DIR/train.csv '--image_path=train_images/video_{video_id}/{video_frame}.jpg' "
            "--class_names=starfish --split_column=video_id --splits=train=0,validation=1",
            {"train": {"starfish": 1}, "validation": {"starfish": 2}},
        ),
    ),
    Layout(
        "NYU Depth",
        "rgb/{1..4}.png depth/{1..4}.png",
        refused=Refusal("images_and_masks", "input", says=["depth"]),
        suggestions=[unlabelled(train=4)],
        recommended=Command(
            "--input=DIR/rgb --mask_root=DIR/depth --mask_bit_depth=16 --layout=segmentation", unlabelled(train=4)
        ),
        remark="depth",
    ),
    Layout(
        "images and a few folders",
        "{1..9}.jpg cat/1.jpg",
        refused=Refusal("no_class_folders", "input", "label_pattern", says=["9 of 10 images"]),
        suggestions=[unlabelled(train=10)],
    ),
    Layout(
        "Flickr8k",
        "Images/{0001..0003}.jpg",
        refused=Refusal("no_class_folders", "input", "label_pattern", says=["Images"]),
        suggestions=[unlabelled(train=3)],
        tables={
            "captions.txt": rows(
                "image,caption", *(f"{one}.jpg,A dog runs {where} ." for one in _IDS[:3] for where in ("up", "down"))
            )
        },
        recommended=Command(
            "--source=csv --input=DIR/captions.txt --label_column=caption --label_type=text --group_rows "
            "--image_root=DIR/Images",
            unlabelled(train=6),
        ),
    ),
    # Classes in the names of files.
    Layout(
        "Dogs vs. cats",
        "train/{cat,dog}.{0..5}.jpg test1/{1..3}.jpg",
        refused=Refusal("split_or_class", "input"),
        tables={"sampleSubmission.csv": rows("id,label", "1,0", "2,0")},
        suggestions=[in_train(cat=6, dog=6), unlabelled(train=12, test=3)],
    ),
    Layout(
        "Oxford Pets",
        "images/{Abyssinian,great_pyrenees}_{1..6}.jpg annotations/trimaps/{Abyssinian,great_pyrenees}_{1..6}.png "
        "annotations/xmls/Abyssinian_1.xml annotations/list.txt",
        refused=Refusal("images_and_masks", "input", says=["annotations"]),
        suggestions=[unlabelled(train=12), in_train(Abyssinian=6, great_pyrenees=6), unlabelled(train=12)],
        remark="animal, border, background",
    ),
    Layout(
        "UTKFace",
        "{21,30,45}_{0,1}_2_2017.jpg.chip.jpg",
        refused=Refusal("no_class_folders", "input", "label_pattern"),
        suggestions=[unlabelled(train=6)],
        recommended=Command(r"--input=DIR '--label_pattern=^\d+_(?P<label>[01])_'", in_train(**{"0": 3, "1": 3})),
        remark="gender; [several features](layouts.md#several-classes) have age and race too",
    ),
    # Datasets of objects and masks.
    Layout(
        "COCO 2017",
        "train2017/{000000000009,000000000025}.jpg val2017/000000000139.jpg "
        "annotations/{instances,captions}_{train,val}2017.json",
        refused=Refusal("split_or_class", "input", says=["COCO"]),
        suggestions=[unlabelled(train=2, validation=1)] * 2,
        tables={
            "annotations/instances_train2017.json": coco("000000000009.jpg", "000000000025.jpg"),
            "annotations/instances_val2017.json": coco("000000000139.jpg"),
        },
    ),
    Layout(
        "COCO as Roboflow exports it",
        "{train,valid}/IMG_{0a1b,2c3d}_jpg.rf.{ea7f,19bc}.jpg {train,valid}/_annotations.coco.json",
        refused=Refusal("no_class_folders", "input", "label_pattern", says=["COCO"]),
        suggestions=[unlabelled(train=4, validation=4)] * 2,
        tables={
            f"{split}/_annotations.coco.json": coco(*expand("IMG_{0a1b,2c3d}_jpg.rf.{ea7f,19bc}.jpg"))
            for split in ("train", "valid")
        },
    ),
    Layout(
        "YOLO as Roboflow exports it",
        "data.yaml {train,valid,test}/images/{a,b}.jpg {train,valid,test}/labels/{a,b}.txt",
        refused=Refusal("no_class_folders", "input", "label_pattern", says=["YOLO"]),
        suggestions=[unlabelled(train=2, validation=2, test=2)] * 2,
        tables={
            "data.yaml": "train: ../train/images\nval: ../valid/images\ntest: ../test/images\nnc: 1\nnames: ['cat']\n",
            **dict.fromkeys(expand("{train,valid,test}/labels/{a,b}.txt"), "0 0.5 0.5 0.2 0.2\n"),
        },
    ),
    Layout(
        "COCO128 of Ultralytics",
        "README.txt images/train2017/{1..3}.jpg",
        refused=Refusal("split_or_class", "input", says=["YOLO"]),
        suggestions=[unlabelled(train=3)] * 2,
        tables={
            "coco128.yaml": "path: coco128\ntrain: images/train2017\nval: images/train2017\nnames:\n  0: person\n",
            **dict.fromkeys(expand("labels/train2017/{1..3}.txt"), "0 0.5 0.5 0.2 0.2\n"),
        },
        remark="Ultralytics' code has coco128.yaml: copy it into DIR",
    ),
    Layout(
        "Pascal VOC 2012",
        "JPEGImages/2007_{0001..0003}.jpg Annotations/2007_{0001..0003}.xml SegmentationClass/2007_0001.png "
        "SegmentationObject/2007_0001.png ImageSets/Main/{train,cat_train}.txt",
        refused=Refusal("images_and_masks", "input", says=["Pascal VOC"]),
        suggestions=[unlabelled(train=3), unlabelled(train=1), unlabelled(train=3)],
        root="VOC2012",
        tables={
            "ImageSets/Main/train.txt": "2007_0001\n2007_0002\n2007_0003\n",
            **dict.fromkeys(expand("Annotations/2007_{0001..0003}.xml"), ANNOTATION),
        },
    ),
    Layout(
        "KITTI object detection",
        "training/image_2/{000001..000003}.png testing/image_2/000001.png",
        refused=Refusal("no_class_folders", "input", "label_pattern"),
        suggestions=[unlabelled(train=3), unlabelled(train=3, test=1)],
        tables=dict.fromkeys(
            expand("training/label_2/{000001..000003}.txt"),
            "Car 0.00 0 -1.58 1.00 1.00 5.00 5.00 1.65 1.67 3.64 -0.65 1.71 46.70 -1.59\n",
        ),
    ),
    Layout(
        "Kvasir-SEG",
        "images/{1..3}.jpg masks/{1..3}.jpg kavsir_bboxes.json",
        refused=Refusal("images_and_masks", "input", says=["masks"]),
        suggestions=[unlabelled(train=3)],
        remark="the masks are JPEG files, which do not preserve numbers",
    ),
    Layout(
        "Carvana",
        "train/car_{01..03}.jpg train_masks/car_{01..03}_mask.gif test/car_04.jpg",
        refused=Refusal("images_and_masks", "input", says=["train_masks"]),
        suggestions=[unlabelled(train=3), unlabelled(train=3, test=1)],
    ),
    Layout(
        "CamVid, SegNet's copy",
        "{train,val,test}/{a,b}.png {train,val,test}annot/{a,b}.png train.txt",
        refused=Refusal("images_and_masks", "input", says=["trainannot, valannot"]),
        suggestions=[unlabelled(train=2, validation=2, test=2), unlabelled(train=2, validation=2, test=2)],
    ),
    Layout(
        "Cityscapes",
        "leftImg8bit/{train,val}/aachen/a_{1..2}_leftImg8bit.png "
        "gtFine/{train,val}/aachen/a_{1..2}_gtFine_{color,instanceIds,labelIds}.png "
        "gtFine/{train,val}/aachen/a_{1..2}_gtFine_polygons.json",
        refused=Refusal("images_and_masks", "input", says=["gtFine"]),
        suggestions=[unlabelled(train=2, validation=2), unlabelled(train=2, validation=2)],
    ),
    Layout(
        "ADE20K, scene parsing",
        "images/{training,validation}/ADE_{1..2}.jpg annotations/{training,validation}/ADE_{1..2}.png",
        refused=Refusal("images_and_masks", "input", says=["annotations"]),
        suggestions=[unlabelled(train=2, validation=2), unlabelled(train=2, validation=2)],
    ),
    Layout(
        "COVID-19 Radiography",
        "{COVID,Lung_Opacity,Normal,Pneumonia}/{images,masks}/{1..3}.png COVID.metadata.xlsx",
        refused=Refusal(
            "images_and_masks", "input", says=["COVID/masks, Lung_Opacity/masks, Normal/masks, Pneumonia/masks"]
        ),
        suggestions=[
            unlabelled(train=12),
            in_train(COVID=3, Lung_Opacity=3, Normal=3, Pneumonia=3),
            unlabelled(train=12),
        ],
        recommended=1,
    ),
    Layout(
        "Breast ultrasound (BUSI)",
        "{benign,malignant}/x+({1..6}).png {benign,malignant}/x+({1..6})_mask.png",
        refused=Refusal("images_and_masks", "input", says=["_mask"]),
        suggestions=[unlabelled(train=12), in_train(benign=6, malignant=6), unlabelled(train=12)],
    ),
    Layout(
        "Data Science Bowl 2018",
        "stage1_train/{aa,bb}/images/x.png stage1_train/{aa,bb}/masks/{1..3}.png",
        refused=Refusal("images_and_masks", "input"),
        suggestions=[unlabelled(train=2)] * 3,
    ),
    Layout(
        "MVTec AD, one category",
        "train/good/{1..3}.png test/{good,broken}/{1..2}.png ground_truth/broken/{1..2}_mask.png",
        refused=Refusal("images_and_masks", "input", says=["ground_truth"]),
        suggestions=[
            {"train": {"good": 3}, "test": {"good": 2, "broken": 2}},
            unlabelled(train=3, test=4),
        ],
        root="bottle",
    ),
    # Splits that need a word.
    Layout(
        "Intel image classification",
        "seg_train/seg_train/{forest,sea}/{1..3}.jpg seg_test/seg_test/{forest,sea}/{1..2}.jpg "
        "seg_pred/seg_pred/{1..2}.jpg",
        refused=Refusal("split_or_class", "input", says=["seg_test, seg_train"]),
        suggestions=[{"train": {"forest": 3, "sea": 3}, "test": {"forest": 2, "sea": 2}}, unlabelled(train=6, test=4)],
    ),
    Layout(
        "ASL alphabet",
        "asl_alphabet_train/asl_alphabet_train/{A,B,C}/{1..3}.jpg asl_alphabet_test/asl_alphabet_test/{A,B,C}_test.jpg",
        refused=Refusal("split_or_class", "input"),
        suggestions=[in_train(A=3, B=3, C=3), unlabelled(train=9, test=3)],
    ),
    Layout(
        "Fruits-360",
        "{Training,Test}/{Apple+Red+1,Plum}/{1..2}_100.jpg test-multiple_fruits/apple_1.jpg",
        refused=Refusal("split_or_class", "input"),
        suggestions=[
            {"train": {"Apple Red 1": 2, "Plum": 2}, "test": {"Apple Red 1": 2, "Plum": 2}},
            unlabelled(train=4, test=4),
        ],
    ),
    Layout(
        "Chest X-ray (pneumonia) with its copy",
        "{train,test,val}/{NORMAL,PNEUMONIA}/{1..2}.jpeg chest_xray/train/{NORMAL,PNEUMONIA}/{1..2}.jpeg "
        "__MACOSX/train/NORMAL/._1.jpeg",
        refused=Refusal("split_or_class", "input"),
        suggestions=[
            {split: {"NORMAL": 2, "PNEUMONIA": 2} for split in ("train", "validation", "test")},
            unlabelled(train=4, validation=4, test=4),
        ],
        root="chest_xray",
    ),
    Layout(
        "Stanford Cars",
        "cars_train/{00001..00003}.jpg cars_test/{00001..00002}.jpg devkit/cars_meta.mat",
        refused=Refusal("split_or_class", "input"),
        suggestions=[unlabelled(train=3, test=2)],
        remark="in a .mat file",
    ),
    Layout(
        "classes in train, and annotations that are no list",
        "train/{n01443537,n01629819}/images/x_{1..3}.JPEG train/n01443537/n01443537_boxes.txt "
        "val/images/val_{1..4}.JPEG "
        "val/val_annotations.txt test/images/test_{1..2}.JPEG {words,wnids}.txt",
        refused=Refusal("no_class_folders", "input"),
        suggestions=[in_train(n01443537=3, n01629819=3), unlabelled(train=6, validation=4, test=2)],
        root="tiny-imagenet-200",
    ),
    Layout(
        "ImageNet on Kaggle",
        "ILSVRC/Data/CLS-LOC/train/{n01440764,n01443537}/{1..2}.JPEG ILSVRC/Data/CLS-LOC/{val,test}/I_{1..2}.JPEG "
        "ILSVRC/Annotations/CLS-LOC/val/I_1.xml ILSVRC/ImageSets/CLS-LOC/train_cls.txt",
        refused=Refusal("no_class_folders", "input"),
        suggestions=[in_train(n01440764=2, n01443537=2), unlabelled(train=4, validation=2, test=2)],
        root="imagenet",
    ),
    Layout(
        "VGGFace2",
        "train/{n000002,n000003}/{1..2}.jpg test/{n000001,n000009}/{1..2}.jpg",
        refused=Refusal("classes_differ_by_split", "input"),
        suggestions=[
            {"train": {"n000002": 2, "n000003": 2}, "test": {"n000001": 2, "n000009": 2}},
            in_train(n000002=2, n000003=2),
            unlabelled(train=4, test=4),
        ],
        recommended=1,
        remark="people; those in test are others",
    ),
    Layout(
        "cat, dog and a test without labels",
        "{cat,dog}/{1..3}.jpg test/{1..2}.jpg",
        refused=Refusal("split_or_class", "input", says=["test"]),
        suggestions=[in_train(cat=3, dog=3), unlabelled(train=8)],
    ),
    Layout(
        "a train among vehicles",
        "{bus,car,train}/{1..2}.jpg",
        in_train(bus=2, car=2, train=2),
    ),
    # Two levels of folders.
    Layout(
        "PlantVillage",
        "{color,grayscale,segmented}/{Apple,Corn}/{1..2}.jpg",
        refused=Refusal("unclear_class_level", "input"),
        suggestions=[in_train(Apple=6, Corn=6), in_train(color=4, grayscale=4, segmented=4), in_train(Apple=2, Corn=2)],
        recommended=2,
    ),
    Layout(
        "days with good and bad parts",
        "{day1,day2}/{ok,scratch}/{1..2}.jpg",
        refused=Refusal("unclear_class_level", "input"),
        suggestions=[in_train(ok=4, scratch=4), in_train(day1=4, day2=4), in_train(ok=2, scratch=2)],
    ),
    Layout(
        "PACS",
        "{art_painting,cartoon,photo,sketch}/{dog,guitar}/{1..2}.jpg",
        refused=Refusal("unclear_class_level", "input"),
        suggestions=[
            in_train(dog=8, guitar=8),
            in_train(art_painting=4, cartoon=4, photo=4, sketch=4),
            in_train(dog=2, guitar=2),
        ],
    ),
    Layout(
        "Office-31",
        "{amazon,dslr}/images/{back_pack,bike}/{1..2}.jpg",
        refused=Refusal("unclear_class_level", "input"),
        suggestions=[in_train(back_pack=4, bike=4), in_train(amazon=4, dslr=4), in_train(back_pack=2, bike=2)],
    ),
    Layout(
        "iNaturalist 2017",
        "train_val_images/Aves/{Ara_ara,Corvus_corax}/{1..2}.jpg train_val_images/Insecta/Apis_mellifera/1.jpg",
        refused=Refusal("unclear_class_level", "input"),
        suggestions=[
            in_train(Aves=4, Insecta=1),
            in_train(Ara_ara=2, Corvus_corax=2, Apis_mellifera=1),
            unlabelled(train=5),
        ],
        recommended=1,
    ),
    Layout(
        "BreakHis",
        "benign/SOB/adenosis/SOB_B_A_14-1/{40X,100X}/1.png "
        "malignant/SOB/ductal_carcinoma/SOB_M_DC_14-2/{40X,100X}/1.png",
        refused=Refusal("unclear_class_level", "input"),
        suggestions=[in_train(benign=2, malignant=2), in_train(adenosis=2, ductal_carcinoma=2), unlabelled(train=4)],
    ),
    Layout(
        "MVTec AD, all categories",
        "{bottle,cable}/train/good/{1..2}.png {bottle,cable}/test/{good,bent}/1.png "
        "{bottle,cable}/ground_truth/bent/1_mask.png",
        refused=Refusal("images_and_masks", "input"),
        suggestions=[unlabelled(train=8)],
        recommended=Command(
            "'--input=train=DIR/*/train/**' '--input=test=DIR/*/test/**' '--label_pattern=(?P<label>[^/]+)/[^/]+$'",
            {"train": {"good": 4}, "test": {"good": 2, "bent": 2}},
        ),
    ),
    Layout(
        "class folders at different depths",
        "abbey/{1..2}.jpg church/{indoor,outdoor}/{1..2}.jpg",
        refused=Refusal("unclear_class_level", "input"),
        suggestions=[
            in_train(abbey=2, church=4),
            {"train": {"abbey": 2, "church/indoor": 2, "church/outdoor": 2}},
            unlabelled(train=6),
        ],
    ),
    Layout(
        "Market-1501",
        "bounding_box_train/{0002,0007}_c1s1_{1..3}.jpg bounding_box_test/0003_c1s1_{1..2}.jpg query/0003_c1s1_9.jpg "
        "gt_bbox/0002_c1s1_{1..3}.jpg",
        refused=Refusal("images_and_masks", "input", says=["gt_bbox"]),
        suggestions=[unlabelled(train=6, test=2)],
        recommended=Command(
            r"--input=DIR/bounding_box_train '--label_pattern=^(?P<label>\d+)_'", in_train(**{"0002": 3, "0007": 3})
        ),
        remark="people; those in test are others",
    ),
    # A single folder is rarely a class.
    Layout(
        "MedMNIST as png",
        "pathmnist/train{0..3}_0.png pathmnist/train{4..7}_1.png pathmnist/val0_1.png pathmnist/test0_1.png",
        refused=Refusal("single_class", "input", says=["pathmnist ", "10 images", "pathmnist.csv"]),
        suggestions=[
            {"train": {"0": 4, "1": 4}, "validation": {"1": 1}, "test": {"1": 1}},
            in_train(pathmnist=10),
            unlabelled(train=10),
        ],
        tables={
            "pathmnist.csv": lines(
                *(f"TRAIN,train{number}_{number // 4}.png,{number // 4}" for number in range(8)),
                "VALIDATION,val0_1.png,1",
                "TEST,test0_1.png,1",
            )
        },
    ),
    Layout(
        "a single class folder",
        "scratches/{1..3}.jpg",
        refused=Refusal("single_class", "input", says=["scratches ", "3 images"]),
        suggestions=[in_train(scratches=3), unlabelled(train=3)],
    ),
    # Structure: annotations, and pairs under any name.
    Layout(
        "Pascal VOC, several years",
        "{VOC2007,VOC2012}/JPEGImages/{0001..0003}.jpg {VOC2007,VOC2012}/Annotations/{0001..0003}.xml",
        refused=Refusal("unclear_folders", "input", says=["Pascal VOC"]),
        suggestions=[unlabelled(train=6), in_train(VOC2007=3, VOC2012=3), unlabelled(train=6)],
        root="VOCdevkit",
        tables=dict.fromkeys(expand("{VOC2007,VOC2012}/Annotations/{0001..0003}.xml"), ANNOTATION),
    ),
    Layout(
        "CamVid with masks beside the images",
        "0001TP_{006690,006720,006750,008550}.png 0001TP_{006690,006720,006750,008550}_L.png",
        refused=Refusal("images_and_masks", "input", says=["_L"]),
        suggestions=[unlabelled(train=4), unlabelled(train=4)],
        recommended=Command(
            "--input=DIR --mask_suffix=_L --mask_colors=camvid --layout=segmentation", unlabelled(train=4)
        ),
    ),
    Layout(
        "pairs in folders of any name",
        "photo/{aa,b1,xyz}.jpg drawn/{aa,b1,xyz}.png",
        refused=Refusal("images_and_masks", "input"),
        suggestions=[unlabelled(train=3), unlabelled(train=3), unlabelled(train=3)],
    ),
    Layout(
        "two kinds of images of the same things",
        "visible/{k3,p9,zz}.png infrared/{k3,p9,zz}.png",
        refused=Refusal("images_and_masks", "input", "class_names"),
        suggestions=[unlabelled(train=3), unlabelled(train=3), unlabelled(train=3)],
    ),
    # Pairs and single bands under any name, several masks of an image, and parts.
    Layout(
        "CamVid, the original folders",
        "701_StillsRaw_full/0001TP_{006690,006720,006750}.png LabeledApproved_full/0001TP_{006690,006720,006750}_L.png",
        refused=Refusal("images_and_masks", "input"),
        suggestions=[unlabelled(train=3), unlabelled(train=3), unlabelled(train=3)],
        recommended=Command(
            "--input=DIR/701_StillsRaw_full --mask_root=DIR/LabeledApproved_full --mask_suffix=_L --mask_colors=camvid "
            "--layout=segmentation",
            unlabelled(train=3),
        ),
    ),
    Layout(
        "ISPRS Potsdam",
        "2_Ortho_RGB/top_potsdam_{2_10,2_11,3_12}_RGB.tif 5_Labels_all/top_potsdam_{2_10,2_11,3_12}_label.tif",
        refused=Refusal("images_and_masks", "input"),
        suggestions=[unlabelled(train=3), unlabelled(train=3), unlabelled(train=3)],
        recommended=1,
        remark="the masks hold colors, whose classes `--mask_colors` reads from a file",
    ),
    Layout(
        "ISIC 2018, segmentation",
        "ISIC2018_Task1-2_Training_Input/ISIC_{0000000..0000004}.jpg "
        "ISIC2018_Task1_Training_GroundTruth/ISIC_{0000000..0000004}_segmentation.png",
        refused=Refusal("images_and_masks", "input"),
        suggestions=[unlabelled(train=5), unlabelled(train=5), unlabelled(train=5)],
    ),
    Layout(
        "Penn-Fudan pedestrians",
        "PNGImages/FudanPed{00001..00004}.png PedMasks/FudanPed{00001..00004}_mask.png "
        "Annotation/FudanPed{00001..00004}.txt",
        refused=Refusal("images_and_masks", "input"),
        suggestions=[unlabelled(train=4), unlabelled(train=4), unlabelled(train=4)],
    ),
    Layout(
        "DUTS saliency",
        "DUTS-TR/DUTS-TR-Image/{a1,b2,c3}.jpg DUTS-TR/DUTS-TR-Mask/{a1,b2,c3}.png "
        "DUTS-TE/DUTS-TE-Image/{d1,e2}.jpg DUTS-TE/DUTS-TE-Mask/{d1,e2}.png",
        refused=Refusal("images_and_masks", "input"),
        suggestions=[unlabelled(train=5), unlabelled(train=5), unlabelled(train=5)],
        recommended=Command(
            "--input=train=DIR/DUTS-TR/DUTS-TR-Image --input=test=DIR/DUTS-TE/DUTS-TE-Image "
            "--mask_root=train=DIR/DUTS-TR/DUTS-TR-Mask --mask_root=test=DIR/DUTS-TE/DUTS-TE-Mask "
            "--layout=segmentation",
            unlabelled(train=3, test=2),
        ),
    ),
    Layout(
        "numbered patches of one split",
        "{patch0,patch1,patch2}/objects365_v1_{00000001..00000003}.jpg",
        refused=Refusal("no_class_folders", "input", "label_pattern", says=["patch0, patch1, patch2"]),
        suggestions=[unlabelled(train=9)],
    ),
    Layout(
        "Objects365, train",
        " ".join(_OBJECTS365),
        refused=Refusal("unclear_folders", "input", says=["COCO"]),
        suggestions=[unlabelled(train=8), in_train(v1=4, v2=4), unlabelled(train=8)],
        root="train",
        tables={"zhiyuan_objv2_train.json": coco(*(path for word in _OBJECTS365 for path in expand(word)))},
    ),
    Layout(
        "BigEarthNet",
        "S2A_MSIL2A_2017_{1_2,3_4,5_6}/x_B{01..12}.tif S2A_MSIL2A_2017_{1_2,3_4,5_6}/x_labels_metadata.json",
        refused=Refusal("single_bands", "input", says=["B01"]),
        suggestions=[unlabelled(train=36)],
        root="BigEarthNet-v1.0",
        remark="in a .json file beside the bands of each image",
    ),
    Layout(
        "Human Protein Atlas",
        "train/{aa,b1}_{red,green,blue,yellow}.png test/{c,d}_{red,green,blue,yellow}.png",
        refused=Refusal("single_bands", "input", says=["blue, green"]),
        suggestions=[unlabelled(train=8, test=8)],
        tables={"train.csv": rows("Id,Target", "aa,16 0", "b1,7")},
        recommended=Command(
            "--input=DIR/train.csv --image_root=DIR/train --label_column=Target '--label_separator= ' "
            "'--image_path=red={Id}_red.png,green={Id}_green.png,blue={Id}_blue.png,yellow={Id}_yellow.png'",
            in_train(**{"0": 1, "7": 1, "16": 1}),
        ),
        remark="of the four images of each sample",
    ),
    Layout(
        "KITTI semantics",
        "training/{image_2,semantic,semantic_rgb,instance}/{000000_10,000001_10,000002_10}.png "
        "testing/image_2/{000000_10,000001_10}.png",
        refused=Refusal("images_and_masks", "input", says=["training/semantic, training/semantic_rgb"]),
        suggestions=[unlabelled(train=3), unlabelled(train=3), unlabelled(train=3, test=2)],
    ),
    Layout(
        "Mapillary Vistas",
        "{training,validation}/images/{aa,b1,c2}.jpg "
        "{training,validation}/v1.2/{labels,instances,panoptic}/{aa,b1,c2}.png testing/images/{d,e}.jpg",
        refused=Refusal("images_and_masks", "input", says=["training/v1.2/instances, training/v1.2/labels"]),
        suggestions=[unlabelled(train=3, validation=3, test=2)],
        recommended=Command(
            "--input=train=DIR/training/images --input=validation=DIR/validation/images "
            "--mask_root=train=DIR/training/v1.2/labels --mask_root=validation=DIR/validation/v1.2/labels "
            "--layout=segmentation",
            unlabelled(train=3, validation=3),
        ),
    ),
    Layout(
        "DRIVE vessels",
        "training/images/{21..24}_training.tif training/1st_manual/{21..24}_manual1.gif "
        "training/mask/{21..24}_training_mask.gif test/images/{01..03}_test.tif "
        "test/1st_manual/{01..03}_manual1.gif test/mask/{01..03}_test_mask.gif",
        refused=Refusal("images_and_masks", "input", says=["training/1st_manual, training/mask"]),
        suggestions=[unlabelled(train=4, test=3)],
        recommended=Command(
            "--input=DIR/training/images --mask_root=DIR/training/1st_manual --image_suffix=_training "
            "--mask_suffix=_manual1 --layout=segmentation",
            unlabelled(train=4),
        ),
    ),
    Layout(
        "DeepGlobe roads",
        "train/{100034,100081,100129}_sat.jpg train/{100034,100081,100129}_mask.png valid/{1,2}_sat.jpg",
        refused=Refusal("images_and_masks", "input", says=["_mask"]),
        suggestions=[unlabelled(train=3), unlabelled(train=3, validation=2)],
    ),
    Layout(
        "iSAID",
        "train/images/P{0000..0003}.png train/Semantic_masks/images/P{0000..0003}_instance_color_RGB.png "
        "train/Instance_masks/images/P{0000..0003}_instance_id_RGB.png",
        refused=Refusal("images_and_masks", "input", says=["train/Semantic_masks"]),
        suggestions=[unlabelled(train=4), unlabelled(train=4), unlabelled(train=4)],
        tables={"train/Annotations/iSAID_train.json": coco(*expand("P{0000..0003}.png"), outlined=True)},
        recommended=Command(
            "--input=DIR/train/Annotations/iSAID_train.json --image_root=DIR/train/images --layout=detection_masks",
            in_train(cat=1),
        ),
    ),
    Layout(
        "LoveDA",
        "{Train,Val}/{Rural,Urban}/{images_png,masks_png}/{1..3}.png",
        refused=Refusal("images_and_masks", "input", says=["masks_png"]),
        suggestions=[
            unlabelled(train=6, validation=6),
            {"train": {"Rural": 3, "Urban": 3}, "validation": {"Rural": 3, "Urban": 3}},
            unlabelled(train=6, validation=6),
        ],
    ),
    Layout(
        "CVC-ClinicDB",
        "Original/{1..6}.png Ground+Truth/{1..6}.png",
        refused=Refusal("images_and_masks", "input", says=["Ground Truth"]),
        suggestions=[unlabelled(train=6), unlabelled(train=6)],
    ),
    Layout(
        "YouTube-VOS",
        "train/JPEGImages/{003234,0043f0}/{00000..00003}.jpg train/Annotations/{003234,0043f0}/{00000..00003}.png",
        refused=Refusal("images_and_masks", "input", says=["train/Annotations"]),
        suggestions=[unlabelled(train=8), {"train": {"003234": 4, "0043f0": 4}}, unlabelled(train=8)],
    ),
    Layout(
        "Massachusetts roads",
        "tiff/{train,val,test}/{a1,b2}.tiff tiff/{train,val,test}_labels/{a1,b2}.tif",
        refused=Refusal("images_and_masks", "input", says=["train_labels, tiff/val_labels"]),
        suggestions=[
            unlabelled(train=2, validation=2, test=2),
            {"train": {"a": 1, "b": 1}, "validation": {"a": 1, "b": 1}, "test": {"a": 1, "b": 1}},
            unlabelled(train=2, validation=2, test=2),
        ],
    ),
    Layout(
        "Caltech-101",
        "101_ObjectCategories/{accordion,ant,BACKGROUND_Google}/image_{0001..0003}.jpg "
        "Annotations/{accordion,ant}/annotation_0001.mat",
        refused=Refusal("single_class", "input"),
        suggestions=[
            in_train(BACKGROUND_Google=3, accordion=3, ant=3),
            in_train(BACKGROUND_Google=3, accordion=3, ant=3),
            {"train": {"101_ObjectCategories": 9}},
        ],
    ),
    Layout(
        "Omniglot",
        "images_background/{Greek,Latin}/character{01,02}/0{1..3}.png "
        "images_evaluation/{Avesta,Keble}/character{01,02}/0{1..3}.png",
        refused=Refusal("unclear_class_level", "input"),
        suggestions=[
            in_train(images_background=12, images_evaluation=12),
            in_train(Avesta=6, Greek=6, Keble=6, Latin=6),
            unlabelled(train=24),
        ],
        recommended=Command(
            "--input=train=DIR/images_background --input=test=DIR/images_evaluation "
            "'--label_pattern=(?P<label>[^/]+/[^/]+)/[^/]+$'",
            {
                split: dict.fromkeys(expand(f"{{{alphabets}}}/character{{01,02}}"), 3)
                for split, alphabets in (("train", "Greek,Latin"), ("test", "Avesta,Keble"))
            },
        ),
    ),
    Layout(
        "CASIA-WebFace",
        "{0000045,0000099,0000100}/{001..003}.jpg",
        {"train": {"0000045": 3, "0000099": 3, "0000100": 3}},
    ),
    Layout(
        "DOTA",
        "train/images/P{0000..0003}.png val/images/P{0010..0012}.png",
        refused=Refusal("no_class_folders", "input", "label_pattern"),
        suggestions=[unlabelled(train=4, validation=3), unlabelled(train=4, validation=3)],
        tables=dict.fromkeys(
            (*expand("train/labelTxt/P{0000..0003}.txt"), *expand("val/labelTxt/P{0010..0012}.txt")),
            "imagesource:GoogleEarth\ngsd:0.146\n1.0 1.0 5.0 1.0 5.0 5.0 1.0 5.0 plane 0\n",
        ),
    ),
    # Lists of images, with and without classes, for each split.
    Layout(
        "Food-101",
        "images/{apple_pie,waffles}/{1..3}.jpg",
        refused=Refusal("unclear_folders", "input", says=["lists of splits (meta/train.txt, meta/test.txt)"]),
        suggestions=[
            {"train": {"apple_pie": 2, "waffles": 2}, "test": {"apple_pie": 1, "waffles": 1}},
            in_train(apple_pie=3, waffles=3),
            unlabelled(train=6),
        ],
        root="food-101",
        tables={
            "meta/train.txt": lines("apple_pie/1", "apple_pie/2", "waffles/1", "waffles/3"),
            "meta/test.txt": lines("apple_pie/3", "waffles/2"),
            "meta/classes.txt": lines("apple_pie", "waffles"),
            "meta/labels.txt": lines("Apple pie", "Waffles"),
        },
    ),
    Layout(
        "Describable Textures (DTD)",
        "images/{banded,dotted}/x_000{1..3}.jpg imdb/imdb.mat",
        refused=Refusal(
            "unclear_folders", "input", says=["lists of splits (labels/train1.txt, labels/val1.txt, labels/test1.txt)"]
        ),
        suggestions=[
            {
                "train": {"banded": 1, "dotted": 1},
                "validation": {"banded": 1, "dotted": 1},
                "test": {"banded": 1, "dotted": 1},
            },
            in_train(banded=3, dotted=3),
            unlabelled(train=6),
        ],
        root="dtd",
        tables={
            f"labels/{split}{fold}.txt": lines(f"banded/x_000{number}.jpg", f"dotted/x_000{number}.jpg")
            for fold in (1, 2, 10)
            for number, split in enumerate(("train", "val", "test"), 1)
        },
    ),
    Layout(
        "SUN397 with its lists",
        "a/{abbey,alley}/{1..3}.jpg c/church/{indoor,outdoor}/{1..3}.jpg",
        refused=Refusal("unclear_folders", "input", says=["lists of splits (Training_01.txt, Testing_01.txt)"]),
        suggestions=[
            {
                "train": {"abbey": 1, "alley": 1, "church/indoor": 1, "church/outdoor": 1},
                "test": {"abbey": 1, "alley": 1, "church/indoor": 1, "church/outdoor": 1},
            },
            {"train": {"abbey": 3, "alley": 3, "church/indoor": 3, "church/outdoor": 3}},
            unlabelled(train=12),
        ],
        root="SUN397",
        tables={
            "Training_01.txt": lines(
                "/a/abbey/1.jpg", "/a/alley/1.jpg", "/c/church/indoor/1.jpg", "/c/church/outdoor/1.jpg"
            ),
            "Testing_01.txt": lines(
                "/a/abbey/2.jpg", "/a/alley/2.jpg", "/c/church/indoor/2.jpg", "/c/church/outdoor/2.jpg"
            ),
            "Training_02.txt": lines("/a/abbey/3.jpg", "/a/alley/1.jpg", "/c/church/indoor/1.jpg"),
            "Testing_02.txt": lines("/a/abbey/1.jpg", "/a/alley/3.jpg"),
        },
    ),
    Layout(
        "MIT Indoor 67",
        "Images/{bar,gym}/{1..3}.jpg",
        refused=Refusal("unclear_folders", "input", says=["lists of splits (TrainImages.txt, TestImages.txt)"]),
        suggestions=[
            {"train": {"bar": 2, "gym": 2}, "test": {"bar": 1, "gym": 1}},
            in_train(bar=3, gym=3),
            unlabelled(train=6),
        ],
        tables={
            "TrainImages.txt": lines("bar/1.jpg", "bar/2.jpg", "gym/1.jpg", "gym/2.jpg"),
            "TestImages.txt": lines("bar/3.jpg", "gym/3.jpg"),
        },
    ),
    Layout(
        "FGVC Aircraft",
        "images/{0034309,0034958,1025794,0056978,1236289,2222222}.jpg",
        refused=Refusal("no_class_folders", "input", "label_pattern", says=["images"]),
        suggestions=[
            {split: {"A320": 1, "Boeing 707": 1} for split in ("train", "validation", "test")},
            {split: {"Airbus": 1, "Boeing": 1} for split in ("train", "validation", "test")},
            unlabelled(train=6),
        ],
        root="data",
        tables={
            **{
                f"images_{level}_{split}.txt": lines(*map(" ".join, zip(images, names, strict=True)))
                for level, names in _AIRCRAFT.items()
                for split, images in _AIRCRAFT_SPLITS.items()
            },
            "families.txt": lines("A320", "Boeing 707"),
            "manufacturers.txt": lines("Airbus", "Boeing"),
            "variants.txt": lines("707-320", "A320"),
            "images_box.txt": lines("0034309 1 1 5 5"),
        },
        recommended=Command(
            "--source=csv --input=train=DIR/images_variant_train.txt --input=validation=DIR/images_variant_val.txt "
            "--input=test=DIR/images_variant_test.txt '--image_path={image}.jpg' --label_column=label "
            "--image_root=DIR/images",
            {split: {"707-320": 1, "A320": 1} for split in ("train", "validation", "test")},
        ),
    ),
    Layout(
        "Places365, validation",
        "val_256/Places365_val_0000000{1..4}.jpg",
        refused=Refusal("split_or_class", "input", says=["val_256"]),
        suggestions=[{"validation": {"0": 2, "1": 2}}, unlabelled(validation=4)],
        root="places365_standard",
        tables={
            "places365_val.txt": lines(
                "Places365_val_00000001.jpg 1",
                "Places365_val_00000002.jpg 0",
                "Places365_val_00000003.jpg 1",
                "Places365_val_00000004.jpg 0",
            ),
            "categories_places365.txt": lines("/a/airfield 0", "/a/alcove 1"),
        },
        recommended=Command(
            "--source=csv --input=validation=DIR/places365_val.txt --label_column=label --image_root=DIR/val_256 "
            "--class_names=DIR/categories_places365.txt",
            {"validation": {"/a/airfield": 2, "/a/alcove": 2}},
        ),
    ),
    Layout(
        "ImageNet's validation with a list",
        "ILSVRC2012_val_0000000{1..4}.JPEG",
        refused=Refusal("no_class_folders", "input", "label_pattern"),
        suggestions=[{"validation": {"0": 2, "1": 2}}, unlabelled(validation=4)],
        root="val",
        tables={
            "val.txt": lines(
                "ILSVRC2012_val_00000001.JPEG 1",
                "ILSVRC2012_val_00000002.JPEG 0",
                "ILSVRC2012_val_00000003.JPEG 1",
                "ILSVRC2012_val_00000004.JPEG 0",
            )
        },
    ),
    Layout(
        "COVIDx",
        "train/{a1,b2,c3,d4}.png test/{e5,f6}.png",
        refused=Refusal("no_class_folders", "input", "label_pattern"),
        suggestions=[
            {"train": {"normal": 2, "pneumonia": 2}, "test": {"normal": 1, "pneumonia": 1}},
            unlabelled(train=4, test=2),
        ],
        tables={
            "train.txt": lines(
                "3 a1.png pneumonia cohen", "4 b2.png normal cohen", "5 c3.png pneumonia fig1", "6 d4.png normal fig1"
            ),
            "test.txt": lines("7 e5.png normal rsna", "8 f6.png pneumonia rsna"),
        },
    ),
    Layout(
        "Tiny ImageNet with its annotations",
        "train/{n01443537,n01629819}/images/x_{1..3}.JPEG val/images/val_{1..4}.JPEG test/images/test_{1..2}.JPEG",
        refused=Refusal("no_class_folders", "input"),
        suggestions=[
            {"train": {"n01443537": 3, "n01629819": 3}, "validation": {"n01443537": 2, "n01629819": 2}},
            unlabelled(train=6, validation=4, test=2),
        ],
        root="tiny-imagenet-200",
        tables={
            "val/val_annotations.txt": lines(
                "val_1.JPEG\tn01629819\t0\t32\t44\t62",
                "val_2.JPEG\tn01443537\t0\t32\t44\t62",
                "val_3.JPEG\tn01629819\t0\t32\t44\t62",
                "val_4.JPEG\tn01443537\t0\t32\t44\t62",
            ),
            "words.txt": lines("n01443537\tgoldfish"),
            "wnids.txt": lines("n01443537", "n01629819"),
        },
    ),
    Layout(
        "Oxford Pets with its lists",
        "images/{Abyssinian,pug}_{1..6}.jpg annotations/trimaps/{Abyssinian,pug}_{1..6}.png",
        refused=Refusal("images_and_masks", "input", says=["annotations"]),
        suggestions=[
            {"train": {"1": 4, "2": 4}, "test": {"1": 2, "2": 2}},
            unlabelled(train=12),
            in_train(Abyssinian=6, pug=6),
        ],
        tables={
            "annotations/trainval.txt": lines(
                "Abyssinian_1 1 1 1",
                "Abyssinian_2 1 1 1",
                "Abyssinian_3 1 1 1",
                "Abyssinian_4 1 1 1",
                "pug_1 2 1 1",
                "pug_2 2 1 1",
                "pug_3 2 1 1",
                "pug_4 2 1 1",
            ),
            "annotations/test.txt": lines("Abyssinian_5 1 1 1", "Abyssinian_6 1 1 1", "pug_5 2 1 1", "pug_6 2 1 1"),
        },
        remark="numbers of the breeds",
    ),
    Layout(
        "CelebA, the original tree",
        "Img/img_align_celeba/{000001..000004}.jpg",
        refused=Refusal("single_class", "input", says=["img_align_celeba ", "4 images"]),
        suggestions=[
            _CELEBA_LABELS,
            in_train(img_align_celeba=4),
            unlabelled(train=4),
        ],
        tables={
            "Anno/list_attr_celeba.txt": lines(
                "4", "Male Young ", "000001.jpg  1 -1", "000002.jpg -1  1", "000003.jpg  1  1", "000004.jpg -1 -1"
            ),
            "Anno/identity_CelebA.txt": lines("000001.jpg 5", "000002.jpg 6", "000003.jpg 5", "000004.jpg 7"),
            "Eval/list_eval_partition.txt": lines("000001.jpg 0", "000002.jpg 0", "000003.jpg 1", "000004.jpg 2"),
            "Anno/list_bbox_celeba.txt": lines(
                "4",
                "image_id x_1 y_1 width height",
                "000001.jpg    95  71 226 313",
                "000002.jpg    72  94 221 306",
                "000003.jpg 5 5 5 5",
                "000004.jpg 5 5 5 5",
            ),
        },
        recommended=Command(
            "--source=csv --input=DIR/Anno/list_attr_celeba.txt --image_root=DIR/Img/img_align_celeba "
            "--label_columns=Male,Young --join=DIR/Anno/identity_CelebA.txt --join=DIR/Eval/list_eval_partition.txt "
            "--split_column=list_eval_partition --splits=train=0,validation=1,test=2 "
            "--layout=multilabel,identity_CelebA:class",
            _CELEBA_SPLITS,
        ),
        remark="two of the 40 columns, and the identities",
    ),
    Layout(
        "CUB-200-2011",
        "images/{001.Albatross,002.Auklet}/x_{1..3}.jpg attributes/attributes.txt",
        refused=Refusal("unclear_folders", "input", says=["lists of splits (train_test_split.txt)"]),
        suggestions=[
            {"train": {"001.Albatross": 1, "002.Auklet": 2}, "test": {"001.Albatross": 2, "002.Auklet": 1}},
            {"train": {"001.Albatross": 3, "002.Auklet": 3}},
            unlabelled(train=6),
        ],
        root="CUB_200_2011",
        tables={
            "images.txt": lines(
                *(f"{number} 001.Albatross/x_{number}.jpg" for number in (1, 2, 3)),
                *(f"{number + 3} 002.Auklet/x_{number}.jpg" for number in (1, 2, 3)),
            ),
            "image_class_labels.txt": lines("1 1", "2 1", "3 1", "4 2", "5 2", "6 2"),
            "train_test_split.txt": lines("1 0", "2 1", "3 0", "4 1", "5 0", "6 1"),
            "classes.txt": lines("1 001.Albatross", "2 002.Auklet"),
        },
    ),
    Layout(
        "FFHQ, thousands of numbers",
        "00000/{00000..00002}.png 01000/{01000..01002}.png 02000/{02000..02002}.png",
        refused=Refusal("no_class_folders", "input", "label_pattern", says=["00000, 01000, 02000"]),
        suggestions=[unlabelled(train=9)],
        remark="the dataset has none",
    ),
    Layout(
        "EuroSAT, the folder above",
        "2750/Forest/Forest_{1..3}.jpg 2750/River/River_{1..3}.jpg",
        refused=Refusal("single_class", "input"),
        suggestions=[in_train(Forest=3, River=3), in_train(Forest=3, River=3), {"train": {"2750": 6}}],
    ),
    Layout(
        "iNaturalist 2021",
        "{train,val}/{00000_Animalia_A,00001_Plantae_B}/{1..2}.jpg",
        {split: {"00000_Animalia_A": 2, "00001_Plantae_B": 2} for split in ("train", "validation")},
    ),
    Layout(
        "ImageNet with the lists of Caffe",
        "train/n01/n01_{1..3}.JPEG train/n02/n02_{1..3}.JPEG val/ILSVRC_val_{1..4}.JPEG",
        refused=Refusal("no_class_folders", "input", says=["val"]),
        suggestions=[
            {"train": {"0": 2, "1": 2}, "validation": {"0": 2, "1": 2}},
            in_train(n01=3, n02=3),
            unlabelled(train=6, validation=4),
        ],
        tables={
            "train.txt": lines("n01/n01_1.JPEG 0", "n01/n01_2.JPEG 0", "n02/n02_1.JPEG 1", "n02/n02_3.JPEG 1"),
            "val.txt": lines(*(f"ILSVRC_val_{number}.JPEG {number % 2}" for number in (1, 2, 3, 4))),
        },
    ),
    Layout(
        "WIDER FACE",
        "WIDER_{train,val,test}/images/{0--Parade,1--Handshaking}/{1..3}.jpg wider_face_split/wider_face_train.mat",
        refused=Refusal("split_or_class", "input", says=["WIDER_test, WIDER_train, WIDER_val"]),
        suggestions=[
            {split: {"0--Parade": 3, "1--Handshaking": 3} for split in ("train", "validation", "test")},
            unlabelled(train=6, validation=6, test=6),
        ],
        tables={
            "wider_face_split/wider_face_train_bbx_gt.txt": lines(
                *("0--Parade/1.jpg", "2", "1 1 3 3 0 0 0 0 0 0 ", "2 2 4 4 0 0 0 0 0 0 "),
                *("0--Parade/2.jpg", "0", "0 0 0 0 0 0 0 0 0 0 "),
                *("1--Handshaking/3.jpg", "1", "1 1 3 3 2 0 0 0 1 0 "),
            ),
            "wider_face_split/wider_face_val_bbx_gt.txt": lines("0--Parade/1.jpg", "1", "4 4 2 3 0 0 0 0 0 0 "),
            "wider_face_split/wider_face_test_filelist.txt": lines("0--Parade/1.jpg", "1--Handshaking/1.jpg"),
            "wider_face_split/readme.txt": lines("blur:", "  clear->0"),
        },
        recommended=Command(
            "--input=train=DIR/wider_face_split/wider_face_train_bbx_gt.txt "
            "--input=validation=DIR/wider_face_split/wider_face_val_bbx_gt.txt --mapping=widerface --layout=detection "
            "--image_root=DIR/WIDER_train/images --image_root=DIR/WIDER_val/images",
            {"train": {"face": 3}, "validation": {"face": 1}},
        ),
    ),
)
