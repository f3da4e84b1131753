"""The conformance suite that `pytest --byoc-target=…` runs. It is installed with the plugin."""
