"""Everything that was seen of one graph, and comparisons of it with what was expected."""
