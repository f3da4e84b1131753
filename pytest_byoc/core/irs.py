"""The IRs there are: each is a file of that name in `ir/`, and a lowering in the operator records."""

IRS = ("relay", "relax")
#: The names that reports give them.
IR_TITLES = {"relay": "Relay", "relax": "Relax"}
