"""Sources: each lists the samples of one kind of input as `SampleRef`s, without reading images."""
