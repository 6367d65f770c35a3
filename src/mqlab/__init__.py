"""mqlab: a messaging performance lab.

`study` declares scenarios, `runner` runs them, `events` records, `pipeline` measures, `report` shows the measures.
`systems` starts the brokers under test, of which `broker` is one. `drivers`, `client` and `wire` talk to them.
"""

from importlib.metadata import version

__version__ = version("mqlab")
