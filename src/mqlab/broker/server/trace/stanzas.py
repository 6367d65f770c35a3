"""Stanzas of a file that set the trace level of applications. The first stanza that matches decides.

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

# In place of a level: that of the file, or the default level.
DEFAULT: Final = "default"
_HEADING: Final = "ApplicationTrace:"
_KEYS: Final = ("ApplName", "Trace", "TraceLevel")
_LEVELS: Final[dict[str, Level]] = {"LOW": "low", "MEDIUM": "medium", "HIGH": "high"}
# A program may write some thousand stanzas.
_MOST_BYTES: Final = 4 * 1024 * 1024
_MOST_STANZAS: Final = 20_000


class StanzaError(SettingError):
    """A file of stanzas cannot be read, or has an error."""


class Stanza(NamedTuple):
    """`name` may end in `*`, which stands for any characters, or none."""

    name: str
    level: Level

    def matches(self, application: str) -> bool:
        if self.name.endswith("*"):
            return application.startswith(self.name[:-1])
        return application == self.name


def level_of(stanzas: Iterable[Stanza], application: str, default: Level) -> Level:
    """The first stanza that matches decides."""
    return next((stanza.level for stanza in stanzas if stanza.matches(application)), default)


def check_application(name: str) -> None:
    """Raises StanzaError for a name that no application can have."""
    if not 1 <= len(name) <= limits.NAME or not name.isprintable():
        raise StanzaError(f"{name[:80]!r} is not 1 to {limits.NAME} printable characters")
    if "*" in name[:-1]:
        raise StanzaError(f"{name[:80]!r}: a star may stand at the end only")


def level_from(word: str) -> Level | None:
    """The level of this name; None for "default" and for "". Raises StanzaError."""
    for level in get_args(Level):
        if word == level:
            return cast(Level, level)
    if word not in ("", DEFAULT):
        raise StanzaError(f"{word[:80]!r} is none of {', '.join(get_args(Level))}, {DEFAULT}")
    return None


def read_stanzas(path: Path) -> tuple[Stanza, ...]:
    """Raises StanzaError with the line number."""
    try:
        text = read_regular(path, _MOST_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise StanzaError(f"trace_file: {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise StanzaError(f"trace_file: {path} is not UTF-8") from None
    return parse_stanzas(text, str(path))


def parse_stanzas(text: str, source: str) -> tuple[Stanza, ...]:
    """Parse stanzas. Lines that begin with # or * are comments; errors name the `source`."""
    drafts: list[_StanzaLines] = []
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith(("#", "*")):
            continue
        try:
            if stripped == _HEADING:
                drafts.append(_StanzaLines(number))
            elif not drafts:
                # Errors quote no line: the setting may name a wrong file, which may hold secrets.
                raise StanzaError(f"the file must begin with {_HEADING}")
            else:
                drafts[-1].add(stripped)
        except StanzaError as error:
            raise StanzaError(f"{source}:{number}: {error}") from None
        if len(drafts) > _MOST_STANZAS:
            raise StanzaError(f"{source}:{number}: more than {_MOST_STANZAS} stanzas")
    for draft in drafts:
        if "ApplName" not in draft.values:
            raise StanzaError(f"{source}:{draft.line}: a stanza needs ApplName=NAME, or ApplName=* for all")
    return tuple(draft.stanza() for draft in drafts)


def write_stanzas(path: Path, stanzas: Iterable[Stanza], default: Level | None = None) -> None:
    """Write a file of these stanzas; with `default`, a last one for all other applications."""
    last = () if default is None else (Stanza("*", default),)
    path.write_text("\n".join(map(_stanza_text, (*stanzas, *last))), encoding="utf-8")


def _stanza_text(stanza: Stanza) -> str:
    check_application(stanza.name)
    trace = "Trace=OFF" if stanza.level == "off" else f"Trace=ON\n  TraceLevel={stanza.level.upper()}"
    return f"{_HEADING}\n  ApplName={stanza.name}\n  {trace}\n"


class _StanzaLines:
    """The lines of one stanza."""

    def __init__(self, line: int) -> None:
        self.line = line
        self.values: dict[str, str] = {}

    def add(self, text: str) -> None:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or key not in _KEYS:
            raise StanzaError(f"the line is none of {_HEADING} ApplName=, Trace=, TraceLevel=")
        if key in self.values:
            raise StanzaError(f"{key} appears twice in this stanza")
        if key == "ApplName":
            check_application(value)
        accepted = {"Trace": ("ON", "OFF"), "TraceLevel": tuple(_LEVELS)}.get(key)
        if accepted is not None and value not in accepted:
            raise StanzaError(f"{key}={value[:80]} is none of {', '.join(accepted)}")
        self.values[key] = value

    def stanza(self) -> Stanza:
        on = self.values.get("Trace", "ON") == "ON"
        return Stanza(self.values["ApplName"], _LEVELS[self.values.get("TraceLevel", "MEDIUM")] if on else "off")
