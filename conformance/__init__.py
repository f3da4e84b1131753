"""The conformance suite that `pytest --byoc-target=…` runs. Installed with the plugin."""
