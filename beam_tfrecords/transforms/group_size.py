"""What the values of one key in a shuffle may take."""

# Flink makes one record of those that a task sends, and fails the job if it does not fit in a sort buffer: 13 MB where
# a task manager has 1600m and one slot, 4.4 MB where it has 2000m and four, and half of that in a job with all stages.
GROUP_BYTES = 2 << 20
