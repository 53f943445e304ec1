"""Where samples come from: every source lists `SampleRef`s, and none reads an image."""
