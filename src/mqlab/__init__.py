"""mqlab: a messaging performance lab.

`study` declares scenarios, `runner` runs them, `events` records, `pipeline` measures, `report` shows the measures.
`systems` starts the brokers under test, of which `broker` is one. `drivers`, `client` and `wire` talk to them.
"""


def __getattr__(name: str) -> str:
    """`__version__`, which is read when it is asked for: `mqlab --help` needs none of the modules for that."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    return version("mqlab")
