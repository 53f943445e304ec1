"""`report.html`: what is in a dataset, on one page."""
