"""One file per IR. Each offers the same functions and the class `Executable`; see `relay`."""
