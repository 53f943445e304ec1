"""The settings of a build as flags, spec files, help and tables; `transforms` defines them, each once."""
