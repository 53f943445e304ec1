"""Real servers for the integration tests, each started and ended by a context manager.

`tests/integration/install.sh` installs what they need below `.cache/` in the project.
"""
