"""How values are written in a study file: each kind from text, with a sentence for the writer when it is wrong.

The files' text arrives here as it stands (see yaml_file.py). `Sweep[...]` accepts one value or a list of them.
"""

import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Discriminator, Tag, model_validator
from pydantic_core import PydanticCustomError

from mqlab.study.language.units import format_size, parse_percent, parse_rate, parse_size, parse_time
from mqlab.study.metric import METRICS
from mqlab.study.repetition import RepetitionRule

# A body carries its producer's id (4 bytes) and its sequence number (8 bytes): the audit lives from them.
SMALLEST_BODY: Final = 12
# A message, and what moves together, is held in memory several times over by every role that handles it.
LARGEST_BODY: Final = 8 * 2**20
# Roles are sockets and buffers on one machine; a greater number is a slip of the pen.
MOST_ROLES: Final = 10_000
# A year: a longer phase is a slip of the pen too.
LONGEST_PHASE: Final = 365 * 24 * 3600.0

# A selector is held by the broker for every consumer; longer ones are programs.
LONGEST_SELECTOR: Final = 500

# Long enough for a paragraph or a long check, short enough to be quoted.
LONGEST_VALUE: Final = 2000

# Tags of pydantic's union. They show up in the place of an error and are taken out again, so no key may look like them.
SINGLE: Final = "<single>"
LIST: Final = "<list>"


def value_error(message: str, **context: Any) -> PydanticCustomError:
    """An error whose message stays as it is: braces in it are not pydantic's to fill."""
    return PydanticCustomError("wrong", "{message}", {"message": message, **context})


def suggest(word: str, accepted: list[str]) -> str:
    """`accepted: a, b, c`, with the suggest one first if the word is a slip of it."""
    close = get_close_matches(word, accepted, n=1, cutoff=0.6)
    return (f"did you mean '{close[0]}'? " if close else "") + f"accepted: {', '.join(accepted)}"


def _from_text(parse: Callable[[str], Any], wanted: str) -> BeforeValidator:
    """A validator of one kind of value: `wanted` is what to write, for the case that the value is no text at all."""

    def validate(value: object) -> Any:
        if not isinstance(value, str):
            raise value_error(f"write {wanted}, not {'a list' if isinstance(value, list) else 'keys'}")
        if len(value) > LONGEST_VALUE:
            raise value_error(f"is longer than {LONGEST_VALUE} characters")
        try:
            return parse(value)
        except ValueError as error:
            raise value_error(str(error)) from None

    return BeforeValidator(validate)


def _text(text: str) -> str:
    line = " ".join(text.split())
    if not line:
        raise ValueError("is empty; write a text")
    if not line.isprintable():
        raise ValueError("holds signs that cannot be printed; write a plain text")
    return line


def _whole(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"\d{1,12}", text, re.ASCII) or not least <= int(text) <= most:
            raise ValueError(f"'{text}' is not a whole number from {least} to {most}")
        return int(text)

    return parse


def _choice(*accepted: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in accepted:
            raise ValueError(f"'{text}' is not accepted; write {' or '.join(accepted)}")
        return text

    return parse


def _yes(text: str) -> bool:
    if text not in ("yes", "no", "true", "false"):
        raise ValueError(f"'{text}' is not accepted; write yes or no")
    return text in ("yes", "true")


def _body(text: str) -> int:
    size = parse_size(text)
    if size < SMALLEST_BODY:
        raise ValueError(f"'{text}' is too small; a body has at least 12B (its producer's id and sequence number)")
    if size > LARGEST_BODY:
        raise ValueError(f"'{text}' is too large; a body has at most {format_size(LARGEST_BODY)}")
    return size


def _phase(text: str) -> float:
    seconds = parse_time(text)
    if seconds > LONGEST_PHASE:
        raise ValueError(f"'{text}' is longer than a year")
    return seconds


def _measure_phase(text: str) -> float:
    seconds = _phase(text)
    if not seconds:
        raise ValueError(f"'{text}' measures nothing; write 2s, 30s or 1000s")
    return seconds


def _metric(text: str) -> str:
    if text not in METRICS:
        raise ValueError(f"'{text}' is not a metric; {suggest(text, list(METRICS))}")
    return text


def _id(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,62}", text, re.ASCII):
        raise ValueError(f"'{text}' is not an id; write small letters, digits and hyphens, like my-study")
    return text


def _name(text: str) -> str:
    if not text.isprintable() or text != text.strip() or not 0 < len(text) <= 80:
        raise ValueError(f"'{text}' is not a name; write up to 80 letters, digits, spaces and signs on one line")
    return text


def _file(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", text, re.ASCII):
        raise ValueError(f"'{text}' is not the name of a file beside the study, like published.csv")
    return text


def _word(text: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_.]{0,39}", text, re.ASCII):
        raise ValueError(f"'{text}' is not a word; write small letters, digits and _, like queue_limit")
    return text


def _shown(text: str) -> str:
    if not text.isprintable() or text != text.strip() or not 0 < len(text) <= 200 or "," in text:
        raise ValueError(f"'{text[:200]}' is not a value; write up to 200 signs on one line, without commas")
    return text


def _selector(text: str) -> str:
    if not text.isprintable() or not text.strip():
        raise ValueError("a selector is a condition on one line, like colour = 'red'")
    if len(text) > LONGEST_SELECTOR:
        raise ValueError(f"a selector has at most {LONGEST_SELECTOR} characters, this one {len(text)}")
    return text.strip()


def _client_cpu(text: str) -> float:
    percent = parse_percent(text) * 100
    if not percent:
        raise ValueError(f"'{text}' leaves the clients nothing; write 75%")
    return percent


Text = Annotated[str, _from_text(_text, "a text")]
Identifier = Annotated[str, _from_text(_word, "a word like queue_limit")]
ParameterText = Annotated[str, _from_text(_shown, "a value")]
Id = Annotated[str, _from_text(_id, "an id like my-study")]
Name = Annotated[str, _from_text(_name, "a name")]
FileName = Annotated[str, _from_text(_file, "the name of a file")]
MetricName = Annotated[str, _from_text(_metric, "a metric like rate.received")]
Count = Annotated[int, _from_text(_whole(1, MOST_ROLES), "a whole number")]
CountOrZero = Annotated[int, _from_text(_whole(0, MOST_ROLES), "a whole number")]
Messages = Annotated[int, _from_text(_whole(1, 10**9), "a whole number")]
Preload = Annotated[int, _from_text(_whole(0, 10**7), "a whole number")]
Size = Annotated[int, _from_text(_body, "a size like 12B or 1KiB")]
YesNo = Annotated[bool, _from_text(_yes, "yes or no")]
Acknowledge = Annotated[str, _from_text(_choice("auto", "dups_ok", "client"), "auto, dups_ok or client")]
Pattern = Annotated[str, _from_text(_choice("one-way", "request-reply"), "one-way or request-reply")]
Load = Annotated[str, _from_text(_choice("both", "send", "receive"), "both, send or receive")]
Topology = Annotated[str, _from_text(_choice("client", "bindings", "distributed"), "client, bindings or distributed")]
Send = Annotated[str, _from_text(_choice("confirmed", "free"), "confirmed or free")]
Connections = Annotated[str, _from_text(_choice("each", "shared"), "each or shared")]
ClientCpu = Annotated[float, _from_text(_client_cpu, "a share like 75%")]
Time = Annotated[float, _from_text(_phase, "a time like 300ms or 2s")]
MeasureTime = Annotated[float, _from_text(_measure_phase, "a time like 2s")]
Runs = Annotated[int, _from_text(_whole(1, 1000), "a whole number")]


def _or(word: str, meaning: object, parse: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: meaning if text == word else parse(text)


def _number_or(word: str) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            return _whole(1, 1_000_000)(text)
        except ValueError as error:
            raise ValueError(f"{error}, or {word}") from None

    return parse


Transaction = Annotated[int, _from_text(_or("none", 0, _number_or("none")), "a whole number or none")]
Batch = Annotated[int | Literal["auto"], _from_text(_or("auto", "auto", _number_or("auto")), "a whole number or auto")]
Rate = Annotated[float | None, _from_text(_or("max", None, parse_rate), "a rate like 5k/s, or max")]
Prefetch = Annotated[int | None, _from_text(_or("auto", None, _number_or("auto")), "a whole number or auto")]
Selector = Annotated[str, _from_text(_or("none", "", _selector), "a condition, or none")]
Until = Annotated[
    RepetitionRule | None,
    _from_text(_or("none", None, RepetitionRule.parse), "a rule like interval(rate) < 3%, or none"),
]

T = TypeVar("T")


def _single_or_list(value: object) -> str:
    return LIST if isinstance(value, list) else SINGLE


def _some(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if not values:
        raise value_error("is an empty list; write one value or more")
    return values


SingleOrList: Final = Discriminator(_single_or_list)
Sweep = Annotated[
    Annotated[T, Tag(SINGLE)] | Annotated[tuple[T, ...], AfterValidator(_some), Tag(LIST)],
    SingleOrList,
]


class StrictModel(BaseModel):
    """Keys as declared and no others; an unknown one is an error that names the suggest."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: object) -> object:
        accepted = [field.alias or name for name, field in cls.model_fields.items()]
        if not isinstance(data, dict):
            raise value_error(
                f"write keys ({', '.join(accepted)}), not {'a list' if isinstance(data, list) else 'a text'}"
            )
        for key in data:
            if key not in accepted:
                raise value_error(f"unknown key; {suggest(key, accepted)}", key=key)
        return data

    def declared(self) -> dict[str, Any]:
        """Only what was written, group by group, in the order of the declaration."""
        values = {name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set}
        return {name: value.declared() if isinstance(value, StrictModel) else value for name, value in values.items()}
