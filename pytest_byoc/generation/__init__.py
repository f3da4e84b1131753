"""The generators of graphs: systematic cases, structures and random graphs, all made from the
operator records."""
