"""`mqlab broker example-config`: a configuration file to begin with."""

import sys

from mqlab.broker.config import example


def example_config() -> None:
    """Print a configuration file with every setting, its default and what follows from it."""
    sys.stdout.write(example())
