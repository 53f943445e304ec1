"""Names and values that people use, from which inputs are drawn."""

from __future__ import annotations


def words(text: str) -> list[str]:
    """Returns the words of a text."""
    return text.split()


def groups(text: str) -> list[list[str]]:
    """Returns the groups of a text, between `|` or lines, whose words have `+` between them."""
    return [[word.strip() for word in group.split("+")] for line in text.splitlines() for group in line.split("|")]


# Columns. The documented names, then names that a reader may or may not know.
IMAGES = words("image file_name filename path image_path img file filepath Image image_name FilePath")
RARE_IMAGES = [*words("photo picture ImageID slide frame scan img_file id_code crop"), "Image Index"]
SECOND_IMAGES = groups("""left+right|left_image+right_image|center+left|before+after|rgb+depth|image_1+image_2
    img_a+img_b|pre_path+post_path|query+positive|cxr+ct""")
BESIDE_IMAGE = words("depth thumbnail thumb_path reference right_image nir image2 second_image flow_file")
MASKS = words("mask mask_path segmentation seg_file annotation_file mask_name label_image")
LABELS = words("label labels class category class_name Label Class classname CATEGORY")
RARE_LABELS = words("""species diagnosis breed emotion dx target variety disease_type plant weather gt Finding kind
    ground_truth tag type grade y plate_type brand material answer""")
INDICES = words("label class_id label_id class target category_id y class_idx ClassId level labels")
# Name of the number and name of its text.
TWINS = groups("""label+label_name|class_id+class_name|category_id+category|label+label_text|ClassId+SignName
    target+category|class+class_name|species_id+species|label_idx+label|y+species|label+description|id_class+name""")
# Two columns of classes, neither of which is the label rather than the other.
PAIRS = groups("""genus+species|gender+emotion|make+model|color+shape|artist+style|coarse_label+fine_label|fine+coarse
    season+articleType|diagnosis+localization|label_1+label_2|weather+scene|superclass+subclass|age_group+gender
    annotator_1+annotator_2|category1+category2""")
SPLITS = words("split set subset partition phase usage Split fold data_split portion kind_of_set")
FLAGS = (("is_train", "train", "test"), ("is_valid", "validation", "train"), ("is_test", "test", "train"))
CAPTIONS = words("caption text description report Caption title sentence prompt")
VALUES = words("age score price rating quality weight_kg target y count temperature label")
VECTORS = words("embedding votes distribution label probs ratings features label_dist scores landmarks")
FOUR_SIDES = groups("""xmin+ymin+xmax+ymax|x1+y1+x2+y2|x+y+width+height|XMin+YMin+XMax+YMax|x+y+w+h
    left+top+right+bottom|bbox_x1+bbox_y1+bbox_x2+bbox_y2|Roi.X1+Roi.Y1+Roi.X2+Roi.Y2""")
BOX_CELLS = words("bbox box bounding_box bboxes BBox roi")
JUNK = words("""width height year source md5 url_source timestamp notes license camera lat verified patient_id video
    group id uuid key sample_id image_id""")
JUNK.append("Unnamed: 0")

# Cells.
SPLIT_WORDS = groups("""train+val+test|train+test|training+validation+testing|Train+Valid|TRAIN+TEST|train+dev+test
    train+holdout|Training+PublicTest+PrivateTest""")
# Lower-case word -> the split that it means.
SPLIT_OF = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev", "publictest"), "validation"),
    **dict.fromkeys(("test", "testing", "holdout", "privatetest"), "test"),
}
CLASSES = groups("""cat+dog+horse|benign+malignant|no tumor+glioma tumor+pituitary tumor|yes+no|Äpfel+Birnen+Nüsse
    001.Black_footed_Albatross+002.Laysan_Albatross+003.Sooty_Albatross|T-shirt/top+Trouser+Ankle boot|train+bus+car
    Apple___Black_rot+Apple___healthy+Tomato___Leaf_Mold|N+S+V+F|positive+negative|A+B+C+D|zebra+ant+monkey|猫+犬
    Rust+Scab+Healthy+Multiple|0_normal+1_defect|n01440764+n01443537+n01484850|ok+scratch+dent+missing part
    tench, Tinca tinca+goldfish, Carassius auratus+great white shark|Melanoma+Nevus|left turn+right turn+stop
    none+mild+severe|Honda Civic 2012+Audi A4 2010+Fiat 500 2011""")
SENTENCES = (
    "a dog runs on the beach", "Two people, one bike", "An old car parked", "no acute findings", "sunset over hills",
    "A man says \"hello\"", "5 birds on a wire", "a plate of food; tasty", "AB 1000", "KL 22 XY",
    "it's raining", "grey",
)  # fmt: skip
NOTES = ("ok", "blurred", "checked twice", "see mail", "from archive", "retake?")
SOURCES = ("flickr", "clinic A", "web", "street view")
