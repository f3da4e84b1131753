"""The runners that pytest-byoc contains: TVM's RPC, and a command that reads and writes files."""
