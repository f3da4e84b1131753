"""The other side of the wall: processes that hold TVM and the vendor's code.

`client` is used by the host; everything else here runs in the worker's interpreter, which may be as
old as Python 3.8 and holds NumPy and TVM only.
"""
