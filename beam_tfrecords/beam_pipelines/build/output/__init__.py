"""Whose output it is: its lock, its location, its state, and the versions before."""
