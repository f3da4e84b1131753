"""The names of the IRs. Each has a file of that name in `ir/` and lowerings in operator records."""

IRS = ("relay", "relax")
#: The name of each IR in reports.
IR_TITLES = {"relay": "Relay", "relax": "Relax"}
