"""Tables: a row is a sample, whatever the format of the file."""
