"""mqlab: a messaging performance lab.

Read downwards: `study` declares, `load` runs, `events` records, `pipeline` measures, `report` shows.
Below them stand what is measured (`systems`, `broker`) and how it is talked to (`drivers`, `client`, `wire`).
"""

from importlib.metadata import version

__version__ = version("mqlab")
