"""Processes of this machine that do the work of local builds."""
