"""Isolates the broker from its observers: an error in an observer never reaches the command that it observes."""

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from mqlab.broker.core.flow import OverdrawnError
from mqlab.broker.server.native.refusal_frames import REFUSALS
from mqlab.wire.native.bodies import MalformedPayloadError
from mqlab.wire.native.frames import Frame, ProtocolError

log = logging.getLogger("mqlab.broker")

Command = Callable[[Frame], object]
# Errors of a command that are the client's fault.
FAULTS: Final = (*REFUSALS, ProtocolError, MalformedPayloadError, OverdrawnError)


class ObserverErrors:
    """Counts the errors of all observers of a broker; each is a bug of an observer, never the fault of a client.

    It logs the first, second, fourth, eighth ... error, so that clients cannot fill the log.
    """

    def __init__(self) -> None:
        self.count = 0

    def caught(self, error: Exception) -> None:
        self.count += 1
        if self.count & (self.count - 1) == 0:
            log.error("a trace failed; the broker goes on (errors so far: %d)", self.count, exc_info=error)


class Observer(Protocol):
    errors: ObserverErrors


O = TypeVar("O", bound=Observer)  # noqa: E741 - the usual letter for a type
P = ParamSpec("P")


def isolated(hook: Callable[Concatenate[O, P], None]) -> Callable[Concatenate[O, P], None]:
    """Decorate a method of an observer that the broker calls: its errors are counted, not raised."""

    @wraps(hook)
    def run(observer: O, /, *arguments: P.args, **options: P.kwargs) -> None:
        try:
            hook(observer, *arguments, **options)
        except Exception as error:
            observer.errors.caught(error)

    return run


# Any: each kind of command has a note and a result of its own types, and one dict holds the hooks of all kinds.
class Hooks(Protocol):
    """An observer of one kind of command. `before` returns a note for the other two; None: they are not called."""

    def before(self, frame: Frame) -> object: ...

    def after(self, frame: Frame, note: Any, result: Any) -> None: ...

    def failed(self, frame: Frame, note: Any, fault: Exception) -> None: ...


class LaterHooks(Protocol):
    """An observer without `before`, which saves a call."""

    def after(self, frame: Frame, result: Any) -> None: ...

    def failed(self, frame: Frame, fault: Exception) -> None: ...


def observed_later(command: Command, hooks: LaterHooks, errors: ObserverErrors) -> Command:
    """Like `observed`, without `before`."""
    after, failed = hooks.after, hooks.failed

    def run(frame: Frame) -> object:
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
    """Wrap a command: it runs once with the same frame, and returns or raises as without an observer."""
    before, after, failed = hooks.before, hooks.after, hooks.failed

    def run(frame: Frame) -> object:
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
