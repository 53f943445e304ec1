"""`report.html`: an overview of a dataset on one page."""
