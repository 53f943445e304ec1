"""Tables: each row is a sample, in any file format."""
