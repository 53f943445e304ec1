"""References to samples, one by one or as columns, locators of their bytes, and reading these."""
