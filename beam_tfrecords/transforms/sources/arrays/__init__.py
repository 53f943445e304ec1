"""Arrays of pixels as sources: an image is a range of bytes, and its label stands elsewhere."""
