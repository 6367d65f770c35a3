"""The seam between the broker and its observers: an error inside an observer never reaches what it observes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from mqlab.broker.core.flow import OverdrawnError
from mqlab.broker.server.native.refusal_frames import REFUSALS
from mqlab.wire.native.bodies import MalformedPayloadError
from mqlab.wire.native.frames import Frame, ProtocolError

log = logging.getLogger("mqlab.broker")

Command = Callable[[Frame], Any]
# How a command ends that the client got wrong.
FAULTS: Final = (*REFUSALS, ProtocolError, MalformedPayloadError, OverdrawnError)


class ObserverErrors:
    """Counts the errors of all observers of a broker; each is a fault of the observer, never of a client.

    The first, second, fourth, eighth ... is logged: whatever clients do, the log does not grow without end.
    """

    def __init__(self) -> None:
        self.count = 0

    def caught(self, error: Exception) -> None:
        self.count += 1
        if self.count & (self.count - 1) == 0:
            log.error("a trace failed, and all else goes on (errors so far: %d)", self.count, exc_info=error)


class Observer(Protocol):
    errors: ObserverErrors


O = TypeVar("O", bound=Observer)  # noqa: E741 - the usual letter for a type
P = ParamSpec("P")


def isolated(hook: Callable[Concatenate[O, P], None]) -> Callable[Concatenate[O, P], None]:
    """A method of an observer that the broker calls: it returns, whatever happens inside."""

    @wraps(hook)
    def run(observer: O, /, *arguments: P.args, **options: P.kwargs) -> None:
        try:
            hook(observer, *arguments, **options)
        except Exception as error:
            observer.errors.caught(error)

    return run


class Hooks(Protocol):
    """What an observer does around one kind of command. `before` returns a note for the other two, or None: no note."""

    def before(self, frame: Frame) -> Any: ...

    def after(self, frame: Frame, note: Any, result: Any) -> None: ...

    def failed(self, frame: Frame, note: Any, fault: Exception) -> None: ...


class LaterHooks(Protocol):
    """The same of a command before which there is nothing to look at: it takes one call less."""

    def after(self, frame: Frame, result: Any) -> None: ...

    def failed(self, frame: Frame, fault: Exception) -> None: ...


def observed_later(command: Command, hooks: LaterHooks, errors: ObserverErrors) -> Command:
    """As `observed`."""
    after, failed = hooks.after, hooks.failed

    def run(frame: Frame) -> Any:
        try:
            result = command(frame)
        except FAULTS as fault:
            try:
                failed(frame, fault)
            except Exception as error:
                errors.caught(error)
            raise
        try:
            after(frame, result)
        except Exception as error:
            errors.caught(error)
        return result

    return run


def observed(command: Command, hooks: Hooks, errors: ObserverErrors) -> Command:
    """The same command: it runs once, with the same frame, and ends as it would end without an observer."""
    before, after, failed = hooks.before, hooks.after, hooks.failed

    def run(frame: Frame) -> Any:
        note = None
        try:
            note = before(frame)
        except Exception as error:
            errors.caught(error)
        try:
            result = command(frame)
        except FAULTS as fault:
            try:
                if note is not None:
                    failed(frame, note, fault)
            except Exception as error:
                errors.caught(error)
            raise
        try:
            if note is not None:
                after(frame, note, result)
        except Exception as error:
            errors.caught(error)
        return result

    return run
