"""Everything that people read of a run: summaries, notes, lines of the terminal, exit codes. Decides nothing."""
