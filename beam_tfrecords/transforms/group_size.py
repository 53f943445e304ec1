"""The size limit for the values of one key in a shuffle."""

# Flink joins the values that a task sends for a key to one record, and fails the job if this record exceeds a sort
# buffer: 13 MB for a task manager with 1600m and one slot, 4.4 MB with 2000m and four slots, and half of that in a job
# with all stages.
GROUP_BYTES = 2 << 20
