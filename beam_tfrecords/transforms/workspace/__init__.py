"""A build's folder for temporary files, and the output folder that it is in."""
