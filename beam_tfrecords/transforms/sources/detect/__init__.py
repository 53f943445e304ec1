"""What the files of an input mean: splits, classes, masks, tables, annotations; and what a refusal suggests."""
