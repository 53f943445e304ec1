"""Worker processes on this machine for local builds."""
