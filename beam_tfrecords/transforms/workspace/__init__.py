"""A build's folder for temporary files, and the output folder around it."""
