"""Drafts the table of a new target by partitioning and running graphs (`python -m pytest_byoc
init`)."""
