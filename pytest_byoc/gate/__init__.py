"""The gate for CI: waivers, a baseline, a least share of cells (docs/how-to/waivers.md).

Under pytest-xdist the workers report which cases they ran; the controller alone judges (`judge.judge`).
"""
