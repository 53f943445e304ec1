"""Names and values that people use, from which inputs are drawn."""

from __future__ import annotations

# The documented names, then names that a reader may or may not know.
IMAGES = (
    "image",
    "file_name",
    "filename",
    "path",
    "image_path",
    "img",
    "file",
    "filepath",
    "Image",
    "image_name",
    "FilePath",
)
RARE_IMAGES = ("photo", "picture", "Image Index", "ImageID", "slide", "frame", "scan", "img_file", "id_code", "crop")
SECOND_IMAGES = (
    ("left", "right"), ("left_image", "right_image"), ("center", "left"), ("before", "after"), ("rgb", "depth"),
    ("image_1", "image_2"), ("img_a", "img_b"), ("pre_path", "post_path"), ("query", "positive"), ("cxr", "ct"),
)  # fmt: skip
BESIDE_IMAGE = (
    "depth",
    "thumbnail",
    "thumb_path",
    "reference",
    "right_image",
    "nir",
    "image2",
    "second_image",
    "flow_file",
)
MASKS = ("mask", "mask_path", "segmentation", "seg_file", "annotation_file", "mask_name", "label_image")
LABELS = ("label", "labels", "class", "category", "class_name", "Label", "Class", "classname", "CATEGORY")
RARE_LABELS = (
    "species", "diagnosis", "breed", "emotion", "dx", "target", "variety", "disease_type", "plant", "weather", "gt",
    "Finding", "kind", "ground_truth", "tag", "type", "grade", "y", "plate_type", "brand", "material", "answer",
)  # fmt: skip
INDICES = (
    "label",
    "class_id",
    "label_id",
    "class",
    "target",
    "category_id",
    "y",
    "class_idx",
    "ClassId",
    "level",
    "labels",
)
# (name of the number, name of its text)
TWINS = (
    ("label", "label_name"), ("class_id", "class_name"), ("category_id", "category"), ("label", "label_text"),
    ("ClassId", "SignName"), ("target", "category"), ("class", "class_name"), ("species_id", "species"),
    ("label_idx", "label"), ("y", "species"), ("label", "description"), ("id_class", "name"),
)  # fmt: skip
# Two columns of classes, neither of which is the label rather than the other.
PAIRS = (
    ("genus", "species"), ("gender", "emotion"), ("make", "model"), ("color", "shape"), ("artist", "style"),
    ("coarse_label", "fine_label"), ("season", "articleType"), ("diagnosis", "localization"), ("fine", "coarse"),
    ("label_1", "label_2"), ("weather", "scene"), ("superclass", "subclass"), ("age_group", "gender"),
    ("annotator_1", "annotator_2"), ("category1", "category2"),
)  # fmt: skip
SPLITS = (
    "split",
    "set",
    "subset",
    "partition",
    "phase",
    "usage",
    "Split",
    "fold",
    "data_split",
    "portion",
    "kind_of_set",
)
SPLIT_WORDS = (
    ("train", "val", "test"), ("train", "test"), ("training", "validation", "testing"), ("Train", "Valid"),
    ("TRAIN", "TEST"), ("train", "dev", "test"), ("train", "holdout"), ("Training", "PublicTest", "PrivateTest"),
)  # fmt: skip
FLAGS = (("is_train", "train", "test"), ("is_valid", "validation", "train"), ("is_test", "test", "train"))
GROUPS = ("patient_id", "subject", "video", "scene_id", "PatientID", "sequence", "session", "group")
KEYS = ("id", "uuid", "key", "sample_id", "record", "image_id")
CAPTIONS = ("caption", "text", "description", "report", "Caption", "title", "sentence", "prompt")
VALUES = ("age", "score", "price", "rating", "quality", "weight_kg", "target", "y", "count", "temperature", "label")
VECTORS = (
    "embedding",
    "votes",
    "distribution",
    "label",
    "probs",
    "ratings",
    "features",
    "label_dist",
    "scores",
    "landmarks",
)
JSON_CELLS = ("annotations", "label", "region_attributes", "labels", "Label", "meta", "polygon_json")
FOUR_SIDES = (
    (("xmin", "ymin", "xmax", "ymax"), "xyxy"), (("x1", "y1", "x2", "y2"), "xyxy"),
    (("x", "y", "width", "height"), "xywh"),
    (("XMin", "YMin", "XMax", "YMax"), "xyxy"), (("x", "y", "w", "h"), "xywh"),
    (("left", "top", "right", "bottom"), "xyxy"),
    (("bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2"), "xyxy"), (("Roi.X1", "Roi.Y1", "Roi.X2", "Roi.Y2"), "xyxy"),
)  # fmt: skip
BOX_CELLS = ("bbox", "box", "bounding_box", "bboxes", "BBox", "roi")
JUNK = (
    "width", "height", "year", "source", "md5", "url_source", "timestamp", "annotator", "filesize", "notes", "license",
    "Unnamed: 0", "camera", "lat", "lon", "confidence", "verified",
)  # fmt: skip

CLASSES = (
    ("cat", "dog", "horse"), ("benign", "malignant"), ("no tumor", "glioma tumor", "pituitary tumor"),
    ("001.Black_footed_Albatross", "002.Laysan_Albatross", "003.Sooty_Albatross"), ("yes", "no"),
    ("Apple___Black_rot", "Apple___healthy", "Tomato___Leaf_Mold"), ("T-shirt/top", "Trouser", "Ankle boot"),
    ("Äpfel", "Birnen", "Nüsse"), ("train", "bus", "car"), ("N", "S", "V", "F"), ("positive", "negative"),
    ("A", "B", "C", "D"), ("zebra", "ant", "monkey"), ("Rust", "Scab", "Healthy", "Multiple"), ("0_normal", "1_defect"),
    ("tench, Tinca tinca", "goldfish, Carassius auratus", "great white shark"), ("n01440764", "n01443537", "n01484850"),
    ("ok", "scratch", "dent", "missing part"), ("Melanoma", "Nevus"), ("left turn", "right turn", "stop"),
    ("none", "mild", "severe"), ("猫", "犬"), ("Honda Civic 2012", "Audi A4 2010", "Fiat 500 2011"),
)  # fmt: skip
SENTENCES = (
    "a dog runs on the beach", "Two people, one bike", "An old car parked", "no acute findings", "sunset over hills",
    "A man says \"hello\"", "5 birds on a wire", "a plate of food; tasty", "AB 1000", "KL 22 XY",
    "it's raining", "grey",
)  # fmt: skip
NOTES = ("ok", "blurred", "checked twice", "see mail", "from archive", "retake?")
SOURCES = ("flickr", "clinic A", "web", "street view")
