"""TVM's IRs, a file for each. All offer what `interface.IR` lists."""
