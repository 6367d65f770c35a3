"""The root of every exception that mqlab raises on purpose."""


class MqlabError(Exception):
    """A program that uses mqlab can catch this one and nothing of mqlab's own escapes it."""
