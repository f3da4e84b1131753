"""One graph, or several in a module, put through the workers and judged."""
