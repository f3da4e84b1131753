"""The options, targets and levels of a session."""
