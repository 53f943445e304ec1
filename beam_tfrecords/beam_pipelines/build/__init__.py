"""Start here: `build.py` reads as the steps of a build, from the request to `_SUCCESS`. It contains no runner."""
