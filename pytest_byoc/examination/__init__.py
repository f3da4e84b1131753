"""Examines graphs: sends them to the workers, gathers evidence, and decides on a verdict."""
