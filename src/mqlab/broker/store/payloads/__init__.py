"""Payloads that are on disk and not in memory, in the journal or in page files, and references that load them."""
