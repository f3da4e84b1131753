"""The record of a session: what was examined for each target, and each failure as data."""
