"""Where the pixels and points of an image go when it is turned, resized, cropped or padded."""
