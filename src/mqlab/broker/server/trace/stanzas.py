"""Which applications are traced, and how closely: stanzas in a file, in order, the first that matches decides.

ApplicationTrace:
  ApplName=Requester*
  Trace=ON
  TraceLevel=HIGH
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple, cast, get_args

from mqlab.broker import limits
from mqlab.broker.settings import Level, SettingError
from mqlab.regular_file import read_regular

# In place of a level: what the file says, or what holds for all.
DEFAULT: Final = "default"
_HEADING: Final = "ApplicationTrace:"
_KEYS: Final = ("ApplName", "Trace", "TraceLevel")
_LEVELS: Final[dict[str, Level]] = {"LOW": "low", "MEDIUM": "medium", "HIGH": "high"}
# A file of a person has a few; one of a program some thousands.
_MOST_BYTES: Final = 4 * 1024 * 1024
_MOST_STANZAS: Final = 20_000


class StanzaError(SettingError):
    """A file of stanzas cannot be read, or says what cannot be meant."""


class Stanza(NamedTuple):
    """`name` may end in `*`, which stands for anything, also for nothing."""

    name: str
    level: Level

    def matches(self, application: str) -> bool:
        if self.name.endswith("*"):
            return application.startswith(self.name[:-1])
        return application == self.name


def level_of(stanzas: Iterable[Stanza], application: str, otherwise: Level) -> Level:
    """The first stanza that matches decides."""
    return next((stanza.level for stanza in stanzas if stanza.matches(application)), otherwise)


def check_application(name: str) -> None:
    """Raises StanzaError for what no application can be called, and no stanza can mean."""
    if not 1 <= len(name) <= limits.NAME or not name.isprintable():
        raise StanzaError(f"{name[:80]!r} is not 1 to {limits.NAME} printable characters")
    if "*" in name[:-1]:
        raise StanzaError(f"{name[:80]!r}: a star stands at the end, or nowhere")


def level_from(word: str) -> Level | None:
    """A level from its word; None for "default", or none at all. Raises StanzaError."""
    for level in get_args(Level):
        if word == level:
            return cast(Level, level)
    if word not in ("", DEFAULT):
        raise StanzaError(f"{word[:80]!r} is none of {', '.join(get_args(Level))}, {DEFAULT}")
    return None


def read_stanzas(path: Path) -> tuple[Stanza, ...]:
    """Raises StanzaError, with the line."""
    try:
        text = read_regular(path, _MOST_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise StanzaError(f"trace_file: {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise StanzaError(f"trace_file: {path} is not UTF-8") from None
    return parse_stanzas(text, str(path))


def parse_stanzas(text: str, source: str) -> tuple[Stanza, ...]:
    """The stanzas of a text. Lines that begin with # or * are comments; `source` is for the errors."""
    parts: list[_Part] = []
    for number, line in enumerate(text.splitlines(), 1):
        said = line.strip()
        if not said or said.startswith(("#", "*")):
            continue
        try:
            if said == _HEADING:
                parts.append(_Part(number))
            elif not parts:
                # An error quotes no line: the file may be another one than was meant, and hold secrets.
                raise StanzaError(f"the file must begin with {_HEADING}")
            else:
                parts[-1].add(said)
        except StanzaError as error:
            raise StanzaError(f"{source}:{number}: {error}") from None
        if len(parts) > _MOST_STANZAS:
            raise StanzaError(f"{source}:{number}: more than {_MOST_STANZAS} stanzas")
    for part in parts:
        if "ApplName" not in part.values:
            raise StanzaError(f"{source}:{part.line}: a stanza needs ApplName=NAME, or ApplName=* for all")
    return tuple(part.stanza() for part in parts)


def write_stanzas(path: Path, stanzas: Iterable[Stanza], otherwise: Level | None = None) -> None:
    """A file of these stanzas; with `otherwise`, a last one for all other applications."""
    last = () if otherwise is None else (Stanza("*", otherwise),)
    path.write_text("\n".join(map(_written, (*stanzas, *last))), encoding="utf-8")


def _written(stanza: Stanza) -> str:
    check_application(stanza.name)
    trace = "Trace=OFF" if stanza.level == "off" else f"Trace=ON\n  TraceLevel={stanza.level.upper()}"
    return f"{_HEADING}\n  ApplName={stanza.name}\n  {trace}\n"


class _Part:
    """The lines of one stanza."""

    def __init__(self, line: int) -> None:
        self.line = line
        self.values: dict[str, str] = {}

    def add(self, said: str) -> None:
        key, equals, value = (one.strip() for one in said.partition("="))
        if not equals or key not in _KEYS:
            raise StanzaError(f"the line is none of {_HEADING} ApplName=, Trace=, TraceLevel=")
        if key in self.values:
            raise StanzaError(f"{key} stands twice in this stanza")
        if key == "ApplName":
            check_application(value)
        accepted = {"Trace": ("ON", "OFF"), "TraceLevel": tuple(_LEVELS)}.get(key)
        if accepted is not None and value not in accepted:
            raise StanzaError(f"{key}={value[:80]}: one of {', '.join(accepted)}")
        self.values[key] = value

    def stanza(self) -> Stanza:
        on = self.values.get("Trace", "ON") == "ON"
        return Stanza(self.values["ApplName"], _LEVELS[self.values.get("TraceLevel", "MEDIUM")] if on else "off")
