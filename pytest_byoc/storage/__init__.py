"""Files that outlive a test: saved graphs, temporary folders, answers that processes share."""
