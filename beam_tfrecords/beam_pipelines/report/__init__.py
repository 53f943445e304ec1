"""`report.html`, an overview of a dataset."""
