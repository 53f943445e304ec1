"""References to samples, single and by column, and the locators that say where their bytes are."""
