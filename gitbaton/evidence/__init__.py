"""What is believed: checks that ran, receipts over exact commits, and their re-verification."""
