"""All text about a run for people: summaries, notes, progress, terminal lines, exit codes. Decides nothing."""
