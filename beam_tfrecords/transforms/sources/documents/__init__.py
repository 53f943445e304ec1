"""Documents that annotate images, in any format that a mapping describes: JSON, JSON lines, XML, text and CSV."""
