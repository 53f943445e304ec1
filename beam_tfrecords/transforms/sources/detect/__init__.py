"""What names and columns say: words for splits, classes, masks, images, labels. Readers ask it; it judges no input."""
