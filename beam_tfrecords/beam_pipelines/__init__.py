"""The programs; the only place that joins the stages of `transforms`."""
