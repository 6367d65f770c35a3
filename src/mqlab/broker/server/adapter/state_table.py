"""State tables: what a connection of a protocol does with each kind of input, by its stage.

`state_table` of a protocol has its table. By stage, and by kind of input, it names the method that handles the input.
Any other input breaks the rules of the protocol. A stage without a row handles no input: the connection does not read.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, TypeVar

StageT = TypeVar("StageT", bound=Enum)
KindT = TypeVar("KindT")

# Any: the kind of an input says which arguments its method takes.
Row = Mapping[KindT, Callable[..., Any]]
# The row of a stage that handles no input.
NO_INPUT: Final[Row[Any]] = MappingProxyType({})


def resolved(table: Mapping[StageT, Mapping[KindT, str]], owner: type) -> dict[StageT, Row[KindT]]:
    """The table with the methods of a class in place of their names: one lookup finds the method for an input."""
    return {stage: {kind: getattr(owner, name) for kind, name in row.items()} for stage, row in table.items()}
