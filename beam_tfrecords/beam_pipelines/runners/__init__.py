"""How pipelines run: runners, the processes of this machine, and following a build."""
