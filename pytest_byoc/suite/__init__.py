"""One target's suite: which graphs are examined for it, and what becomes of those that fail."""
