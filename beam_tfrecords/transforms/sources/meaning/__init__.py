"""What an input means: facts, readings of folders, trials, coverage, ledger. It asks readers; no reader asks it."""
