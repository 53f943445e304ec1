"""Names of splits."""

from __future__ import annotations

# Lower-case name -> the name that TFDS uses; the last two are from FER2013.
SPLIT_NAMES = {
    **dict.fromkeys(("train", "training", "trn", "tr"), "train"),
    **dict.fromkeys(
        ("validation", "validate", "valid", "val", "dev", "development", "eval", "evaluation", "crossvalidation"),
        "validation",
    ),
    **dict.fromkeys(("test", "testing", "tst", "holdout", "heldout", "hold_out", "held_out"), "test"),
    "publictest": "validation",
    "privatetest": "test",
}
