"""References to samples, one by one or as columns, and locators of their bytes."""
