"""The request of a build, checked before anything starts."""
