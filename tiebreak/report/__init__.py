"""What a run says, read from its store alone."""
