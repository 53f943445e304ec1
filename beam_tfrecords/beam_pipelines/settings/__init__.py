"""The settings of a build as flags, spec files, help and tables; `transforms` defines each of them once."""
