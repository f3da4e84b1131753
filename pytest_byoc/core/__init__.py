"""Graphs, targets, findings and messages: the types that both sides of the wall share."""
