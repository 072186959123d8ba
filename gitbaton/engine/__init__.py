"""What a verb does: each one is a function that gathers facts, asks the rules, and moves refs."""
