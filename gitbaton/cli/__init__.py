"""The command line: parses, prints, nothing else. One module per family of verbs."""
