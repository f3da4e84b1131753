"""Files that outlive a test: saved graphs, temporary folders, answers shared by processes."""
