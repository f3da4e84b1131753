"""Expected values and error bounds of a graph."""
