"""Runners: submit pipelines as jobs and follow them, with a class per runner. Independent of what a build does."""
