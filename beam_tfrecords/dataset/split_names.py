"""Names of splits."""

from __future__ import annotations

# Lower-case name -> the name that TFDS uses; the last two are from FER2013.
# fmt: off
SPLIT_NAMES = {
    **dict.fromkeys(("train", "training", "trn", "tr", "训练集"), "train"),
    **dict.fromkeys(
        (
            "validation", "validate", "valid", "val", "dev", "development", "eval", "evaluation", "crossvalidation",
            "验证集",
        ),
        "validation",
    ),
    **dict.fromkeys(("test", "testing", "tst", "holdout", "heldout", "hold_out", "held_out", "测试集"), "test"),
    "publictest": "validation",
    "privatetest": "test",
}
# fmt: on
