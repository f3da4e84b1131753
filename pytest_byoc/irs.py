"""The IRs there are: each is a file of that name in `worker/ir`, and a lowering in the operator records."""

IRS = ("relay", "relax")
