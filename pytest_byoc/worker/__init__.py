"""The workers: processes that hold TVM and the vendor's code.

All files here run in the worker's interpreter, which may be as old as Python 3.8 and has only NumPy
and TVM. The host's end of the connection is `examination/client.py`.
"""
