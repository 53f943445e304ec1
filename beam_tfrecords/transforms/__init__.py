"""The stages of a build, in the order in which data meets them, and the pure functions they delegate to."""
