"""Reports: the terminal, report.json and its page, Markdown, JUnit XML, and the bundles."""
