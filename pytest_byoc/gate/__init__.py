"""What a CI gates on: waivers, a baseline, a least share of cells; docs/how-to/waivers.md describes them.

Under pytest-xdist the workers report what they ran, and the controller alone judges (`judge.judge`).
"""
