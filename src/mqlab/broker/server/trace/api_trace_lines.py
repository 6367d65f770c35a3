"""The lines of the API trace: columns between tabs.

All that a client said stands between quotation marks, in ASCII, so that no name can end a line or begin one.
"""

from __future__ import annotations

from json.encoder import encode_basestring_ascii as quoted
from typing import TYPE_CHECKING, Any, Final

from mqlab.broker.core.effects import Append, Effect
from mqlab.broker.core.model.sessions import Consumer, Producer, Session
from mqlab.broker.server.trace.traced_links import destination_of
from mqlab.wire.native.frames import Frame, Kind, ProtocolError

if TYPE_CHECKING:
    from mqlab.broker.server.trace.api_trace import Caller

COLUMNS: Final = (
    "time", "connection", "application", "direction", "kind", "session", "link", "first", "amount", "flags", "length",
    "destination",
)  # fmt: skip
IN, OUT = "in", "out"
_NAMES: Final = {int(kind): kind.name for kind in Kind}
_CLOSED: Final = int(Kind.CLOSED)
_TOLD: Final = 255
# Destinations, and beginnings of lines, that are known of one connection: a client may make up any number of them.
_MOST_KNOWN: Final = 4096


def line_of(call: tuple[Any, ...]) -> str:
    """Of a time and a line of the core or the journal, or of a call as a connection noted it."""
    if len(call) == 2:
        return f"{call[0]}\t{call[1]}\n"
    now, caller, direction, kind, flags, session, link, first, amount, length, said = call
    if said is not None:
        _know(caller, link, said)
    key = (direction, kind, session, link)
    words = caller.words.get(key)
    if words is None:
        words = _words(caller, key)
    if kind == _CLOSED and link:
        caller.destinations.pop(link, None)
    return f"{now}\t{words[0]}\t{first}\t{amount}\t{flags}\t{length}\t{words[1]}\n"


def effect_line(effect: Effect) -> str:
    """What the core wants done, in the same columns but the time."""
    kind = type(effect).__name__
    if isinstance(effect, Append):
        return _line("-", "", "core", f"{kind}:{type(effect.record).__name__}", first=effect.lsn)
    about: Any = effect[0]
    session, link, first, destination = 0, 0, 0, ""
    owner = about
    if isinstance(about, Producer | Consumer):
        session, link, destination, owner = about.session.number, about.link, destination_of(about), about.session.owner
        first = effect[1] if len(effect) > 1 and isinstance(effect[1], int) else 0
    elif isinstance(about, Session):
        session, owner = about.number, about.owner
    number, application = str(getattr(owner, "number", "-")), str(getattr(owner, "application", ""))
    return _line(number, application, "core", kind, session=session, link=link, first=first, destination=destination)


def journal_line(what: str, lsn: int) -> str:
    return _line("-", "", "journal", what, first=lsn)


def _line(
    connection: str, application: str, direction: str, kind: str, *, session: int = 0, link: int = 0, first: int = 0,
    destination: str = "",
) -> str:  # fmt: skip
    before = f"{connection}\t{quoted(application)}\t{direction}\t{kind}\t{session}\t{link}"
    return f"{before}\t{first}\t0\t0\t0\t{quoted(destination)}"


def _know(caller: Caller, link: int, said: bytes) -> None:
    """What a link is opened to is what its later lines are about."""
    try:
        name = Frame(0, 0, 0, 0, 0, 0, memoryview(said)).json().get("destination")
    except ProtocolError:
        name = None
    if len(caller.destinations) >= _MOST_KNOWN:
        caller.destinations.clear()
    caller.destinations[link] = quoted(name[:_TOLD]) if isinstance(name, str) else '""'
    caller.words.clear()


def _words(caller: Caller, key: tuple[str, int, int, int]) -> tuple[str, str]:
    """What all lines of one kind about one link have in common."""
    direction, kind, session, link = key
    who = f"{caller.connection.number}\t{quoted(caller.connection.application)}"
    words = f"{who}\t{direction}\t{_NAMES.get(kind, 'END')}\t{session}\t{link}", caller.destinations.get(link, '""')
    if len(caller.words) >= _MOST_KNOWN:
        caller.words.clear()
    caller.words[key] = words
    return words
