"""Images that are there more than once, above all in more than one split."""
