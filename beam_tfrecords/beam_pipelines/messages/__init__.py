"""What people read of a run: summaries, notes, progress, lines of the terminal, exit codes. Decides nothing."""
