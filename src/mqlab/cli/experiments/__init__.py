"""Commands that make a study of their own from their options, run it and answer one question about systems."""
