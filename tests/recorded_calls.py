"""A function that a test puts in place of another, to record its calls."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def recording(function: Callable[Arguments, Result], calls: list[object]) -> Callable[Arguments, Result]:
    """Return the function with a record of the arguments of each call in `calls`."""

    def recorded(*arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
        calls.append(arguments)
        return function(*arguments, **named)

    return recorded
