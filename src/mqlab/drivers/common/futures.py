"""Futures that a connection completes. The task that waits for one may have been cancelled before."""

from asyncio import Future
from collections.abc import Iterable
from typing import Any, TypeVar

Result = TypeVar("Result")
# Any: asyncio makes Future invariant, so no other type takes futures of all results.
AnyFuture = Future[Any]


def settle(future: "Future[Result] | None", result: Result) -> None:
    """Set the result, if a task still waits for it."""
    if future is not None and not future.done():
        future.set_result(result)


def fail_all(futures: "Iterable[AnyFuture | None]", error: Exception) -> None:
    """Let all tasks that still wait for one of the futures fail."""
    for future in futures:
        if future is not None and not future.done():
            future.set_exception(error)
            # Mark it as retrieved: the task that waited may be gone.
            future.exception()
