"""`mqlab broker example-config`: print a configuration file to start from."""

import sys

from mqlab.broker.config_example import EXAMPLE


def example_config() -> None:
    """Print a configuration file with every setting, its default and its effect."""
    sys.stdout.write(EXAMPLE)
