"""Reports: terminal, JSON, and the bundle written for each failure."""
