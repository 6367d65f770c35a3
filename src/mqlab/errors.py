"""The root of every exception that mqlab raises on purpose."""


class MqlabError(Exception):
    """The base of all exceptions of mqlab. A program that uses mqlab can catch this one."""
