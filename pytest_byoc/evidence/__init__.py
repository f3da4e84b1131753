"""The evidence on one graph, and its comparison with the expected values."""
