"""Where graphs come from: systematic cases, structures, and Hypothesis strategies, all read from
the operator records."""
