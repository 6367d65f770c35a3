"""Dispatch: which message of a queue goes to which consumer, and when."""
