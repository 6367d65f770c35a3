"""The types of values in a study file: each is parsed from text, and an error is a sentence for the author.

yaml_file.py passes scalars as text. `Sweep[...]` accepts one value or a list of them.
"""

import re
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Tag,
    ValidationInfo,
    model_validator,
)
from pydantic_core import PydanticCustomError

from mqlab.study.capacity.goal import LatencyGoal
from mqlab.study.language.faults import parse_faults
from mqlab.study.language.rates import RateProfile, is_profile, parse_profile
from mqlab.study.language.units import PeakShare, parse_percent, parse_rate, parse_rate_or_share, parse_time
from mqlab.study.load.body_files import BodyFiles, read_bodies
from mqlab.study.load.destination_shares import parse_shares
from mqlab.study.load.property_values import parse_property, without_commas
from mqlab.study.load.recorded_rates import is_recorded, read_recorded
from mqlab.study.load.sizes import SizeMix, is_mix, parse_body_size, parse_sizes
from mqlab.study.load.study_files import StudyFiles
from mqlab.study.metric import METRICS
from mqlab.study.repetition import RepetitionRule

# A shorter slice would be little but the time that a setting needs to settle; a longer one is a run of its own.
_SHORTEST_SLICE_S: Final = 0.05
_LONGEST_SLICE_S: Final = 10.0
# Roles need sockets and buffers on one machine; a greater number is a mistake.
MAX_ROLES: Final = 10_000
# Priorities are those of JMS.
MAX_PRIORITY: Final = 9
_SHORTEST_LIFETIME_S: Final = 0.001
# A year; a longer phase is a mistake.
LONGEST_PHASE: Final = 365 * 24 * 3600.0

# The broker keeps the selector of every consumer in memory.
LONGEST_SELECTOR: Final = 500

# Long enough for a paragraph or a long check, short enough to be quoted.
LONGEST_VALUE: Final = 2000

# Values by group, as in the file, or by full name (`message.size`). Any: pydantic gives each parameter its own type,
# and `declared` reads them by name.
Parameters = dict[str, Any]
# Tags of pydantic unions. They occur in the location of an error and are removed from it, so no key may look like them.
SINGLE: Final = "<single>"
LIST: Final = "<list>"


def value_error(message: str, **context: object) -> PydanticCustomError:
    """Return an error with this message; pydantic must not format the braces in it."""
    return PydanticCustomError("study_value", "{message}", {"message": message, **context})


def suggest(word: str, accepted: list[str]) -> str:
    """Return `accepted: a, b, c`, with `did you mean` before it if the word resembles one of them."""
    close = get_close_matches(word, accepted, n=1, cutoff=0.6)
    return (f"did you mean '{close[0]}'? " if close else "") + f"accepted: {', '.join(accepted)}"


def _from_text(parse: Callable[[str], object], expected: str) -> BeforeValidator:
    """Return a validator that parses text; `expected` describes the value in the error for a list or a mapping."""
    return _from_files(lambda text, _: parse(text), expected)


def _from_files(parse: Callable[[str, StudyFiles], object], expected: str) -> BeforeValidator:
    """The same for a text that may name files beside the study: they are the context of the validation."""

    def validate(value: object, info: ValidationInfo) -> object:
        if not isinstance(value, str):
            raise value_error(f"write {expected}, not {'a list' if isinstance(value, list) else 'keys'}")
        if len(value) > LONGEST_VALUE:
            raise value_error(f"is longer than {LONGEST_VALUE} characters")
        try:
            return parse(value, info.context or StudyFiles(Path()))
        except ValueError as error:
            raise value_error(str(error)) from None

    return BeforeValidator(validate)


def _text(text: str) -> str:
    line = " ".join(text.split())
    if not line:
        raise ValueError("is empty; write a text")
    if not line.isprintable():
        raise ValueError("contains characters that cannot be printed; write plain text")
    return line


def _integer(least: int, most: int) -> Callable[[str], int]:
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


def _matching(pattern: str, error: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if not re.fullmatch(pattern, text, re.ASCII):
            raise ValueError(f"'{text}' is not {error}")
        return text

    return parse


def _yes_no(text: str) -> bool:
    if text not in ("yes", "no", "true", "false"):
        raise ValueError(f"'{text}' is not accepted; write yes or no")
    return text in ("yes", "true")


def _size(text: str) -> int | SizeMix:
    return parse_sizes(text) if is_mix(text) else parse_body_size(text)


def _bodies(text: str, files: StudyFiles) -> BodyFiles | None:
    return None if text == "filler" else read_bodies(text, files)


def _property(text: str) -> str:
    parse_property(text)
    return without_commas(text)


def _priority(text: str) -> str:
    values = parse_property(text).values
    if not all(isinstance(value, int) and value <= MAX_PRIORITY for value in values):
        raise ValueError(f"'{text}' is not a priority; write a number from 0 to {MAX_PRIORITY}, or 90% 4 + 10% 9")
    return without_commas(text)


def _lifetime(text: str) -> float:
    seconds = _phase(text)
    if seconds < _SHORTEST_LIFETIME_S:
        raise ValueError(f"'{text}' is too short; brokers count the time to live in milliseconds; write 10min")
    return seconds


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


def _slice(text: str) -> float:
    seconds = _phase(text)
    if not _SHORTEST_SLICE_S <= seconds <= _LONGEST_SLICE_S:
        raise ValueError(f"'{text}' is not between 50ms and 10s; write 400ms")
    return seconds


def _metric(text: str) -> str:
    if text not in METRICS:
        raise ValueError(f"'{text}' is not a metric; {suggest(text, list(METRICS))}")
    return text


def _name(text: str) -> str:
    if not text.isprintable() or text != text.strip() or not 0 < len(text) <= 80:
        raise ValueError(f"'{text}' is not a name; write up to 80 printable characters on one line")
    return text


def _parameter_text(text: str) -> str:
    if not text.isprintable() or text != text.strip() or not 0 < len(text) <= 200 or "," in text:
        raise ValueError(f"'{text[:200]}' is not a value; write up to 200 characters on one line, without commas")
    return text


def _selector(text: str) -> str:
    if not text.isprintable() or not text.strip():
        raise ValueError("a selector is a condition on one line, like colour = 'red'")
    if len(text) > LONGEST_SELECTOR:
        raise ValueError(f"a selector has at most {LONGEST_SELECTOR} characters, this one {len(text)}")
    return text.strip()


def _rate(text: str, files: StudyFiles) -> PeakShare | RateProfile | float | None:
    if text == "max":
        return None
    if is_recorded(text):
        return read_recorded(text, files)
    return parse_profile(text) if is_profile(text) else parse_rate_or_share(text)


def _faults(text: str) -> str:
    parse_faults(text)
    return text


def _client_cpu(text: str) -> float:
    percent = parse_percent(text) * 100
    if not percent:
        raise ValueError(f"'{text}' leaves no CPU for the clients; write 75%")
    return percent


_id = _matching(r"[a-z0-9][a-z0-9-]{0,62}", "an id; write lower-case letters, digits and hyphens, like my-study")
_file = _matching(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", "the name of a file beside the study, like published.csv")
_identifier = _matching(r"[a-z][a-z0-9_.]{0,39}", "a name; write lower-case letters, digits and _, like queue_limit")

Text = Annotated[str, _from_text(_text, "a text")]
Identifier = Annotated[str, _from_text(_identifier, "a name like queue_limit")]
ParameterText = Annotated[str, _from_text(_parameter_text, "a value")]
Id = Annotated[str, _from_text(_id, "an id like my-study")]
Name = Annotated[str, _from_text(_name, "a name")]
FileName = Annotated[str, _from_text(_file, "the name of a file")]
MetricName = Annotated[str, _from_text(_metric, "a metric like rate.received")]
Count = Annotated[int, _from_text(_integer(1, MAX_ROLES), "a whole number")]
CountOrZero = Annotated[int, _from_text(_integer(0, MAX_ROLES), "a whole number")]
Preload = Annotated[int, _from_text(_integer(0, 10**7), "a whole number")]
Size = Annotated[int | SizeMix, _from_text(_size, "a size like 12B or 1KiB")]
Body = Annotated[BodyFiles | None, _from_files(_bodies, "filler or files in FOLDER")]
PropertyText = Annotated[str, _from_text(_property, "a value like 7, 1 to 8, red|green or zipf 1000")]
Seed = Annotated[int, _from_text(_integer(0, 10**9), "a whole number")]
YesNo = Annotated[bool, _from_text(_yes_no, "yes or no")]
Acknowledge = Annotated[str, _from_text(_choice("auto", "dups_ok", "client"), "auto, dups_ok or client")]
Pattern = Annotated[str, _from_text(_choice("one-way", "request-reply"), "one-way or request-reply")]
Load = Annotated[str, _from_text(_choice("both", "send", "receive"), "both, send or receive")]
Topology = Annotated[str, _from_text(_choice("client", "bindings", "distributed"), "client, bindings or distributed")]
Send = Annotated[str, _from_text(_choice("confirmed", "free"), "confirmed or free")]
Connections = Annotated[str, _from_text(_choice("each", "shared"), "each or shared")]
ClientCpu = Annotated[float, _from_text(_client_cpu, "a share like 75%")]
Time = Annotated[float, _from_text(_phase, "a time like 300ms or 2s")]
MeasureTime = Annotated[float, _from_text(_measure_phase, "a time like 2s")]
Runs = Annotated[int, _from_text(_integer(1, 1000), "a whole number")]


def _keyword_or(keyword: str, value: object, parse: Callable[[str], object]) -> Callable[[str], object]:
    return lambda text: value if text == keyword else parse(text)


def _number_or(keyword: str) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            return _integer(1, 1_000_000)(text)
        except ValueError as error:
            raise ValueError(f"{error}, or {keyword}") from None

    return parse


Transaction = Annotated[int, _from_text(_keyword_or("none", 0, _number_or("none")), "a whole number or none")]
Messages = Annotated[int | None, _from_text(_keyword_or("none", None, _integer(1, 10**9)), "a whole number or none")]
# `auto` is the former default.
Batch = Annotated[int, _from_text(_keyword_or("auto", 1, _number_or("auto")), "a whole number")]
Rate = Annotated[
    PeakShare | RateProfile | float | None,
    _from_files(_rate, "a rate like 5k/s, or max"),
]
ThinkTime = Annotated[float, _from_text(_keyword_or("none", 0.0, _phase), "a time like 10ms, or none")]
SwitchTime = Annotated[float, _from_text(_keyword_or("none", 0.0, _slice), "a time like 400ms, or none")]
ConsumeRate = Annotated[float | None, _from_text(_keyword_or("max", None, parse_rate), "a rate like 5k/s, or max")]
Prefetch = Annotated[int | None, _from_text(_keyword_or("auto", None, _number_or("auto")), "a whole number or auto")]
Selector = Annotated[str, _from_text(_keyword_or("none", "", _selector), "a condition, or none")]
Faults = Annotated[str, _from_text(_keyword_or("none", "", _faults), "a fault like kill at 5s for 2s, or none")]
Until = Annotated[
    RepetitionRule | None,
    _from_text(_keyword_or("none", None, RepetitionRule.parse), "a rule like interval(rate) < 3%, or none"),
]

Priority = Annotated[str, _from_text(_keyword_or("none", "", _priority), "a priority like 4 or 0 to 9, or none")]
Expiry = Annotated[float, _from_text(_keyword_or("none", 0.0, _lifetime), "a time like 10min, or none")]
Key = Annotated[str, _from_text(_keyword_or("none", "", _property), "keys like zipf 1000, or none")]

Shares = Annotated[str, _from_text(_keyword_or("none", "", parse_shares), "shares like 70% + 30%, zipf, or none")]

Find = Annotated[LatencyGoal, _from_text(LatencyGoal.parse, "a goal like latency.p99 < 10ms")]

T = TypeVar("T")


def _not_empty(values: tuple[T, ...]) -> tuple[T, ...]:
    if not values:
        raise value_error("is an empty list; write at least one value")
    return values


SingleOrList: Final = Discriminator(lambda value: LIST if isinstance(value, list) else SINGLE)
Sweep = Annotated[
    Annotated[T, Tag(SINGLE)] | Annotated[tuple[T, ...], AfterValidator(_not_empty), Tag(LIST)], SingleOrList
]


class StrictModel(BaseModel):
    """Accepts only the declared keys; the error for an unknown key suggests the most similar one."""

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

    def declared(self) -> Parameters:
        """Return the values of the keys that the file sets, group by group, in the order of the class."""
        values = {name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set}
        return {name: value.declared() if isinstance(value, StrictModel) else value for name, value in values.items()}
