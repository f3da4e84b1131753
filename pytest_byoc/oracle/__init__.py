"""The oracle: expected values of a graph with error bounds."""
