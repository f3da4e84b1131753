"""Example targets, installed with the package and made to be copied by a vendor."""
