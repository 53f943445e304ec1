"""The stages of a build, and the pure functions they delegate to."""
