"""The table of a new target, drafted from what its partition function takes (`pytest_byoc init`)."""
