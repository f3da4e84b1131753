"""The suite of one target: it selects the graphs to examine and handles the failing ones."""
