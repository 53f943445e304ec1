"""Pages: `report.html`, an overview of a dataset, and `index.html`, its versions."""
