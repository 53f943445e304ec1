"""Images with annotations beside them: COCO, YOLO, and documents of any format that a mapping describes."""
