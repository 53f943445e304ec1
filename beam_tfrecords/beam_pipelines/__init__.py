"""The programs that can be run; the one place where the stages of `transforms` are joined."""
