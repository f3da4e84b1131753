"""Where graphs come from: systematic cases, structures, and random graphs, all read from
the operator records."""
