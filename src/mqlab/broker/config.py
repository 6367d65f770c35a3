"""The configuration file of a broker: YAML with the names of Settings and of Policy as keys; `example()` shows all.

Paths are relative to the file, sizes are numbers of bytes or have a unit, `policies` is a list of rules with `match`.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, get_type_hints

from mqlab.broker.channel_settings import CHANNEL_FIELDS, ChannelError, ChannelSettings
from mqlab.broker.config_example import EXAMPLE
from mqlab.broker.policy import POLICY_FIELDS, Policies, Policy, PolicyError, PolicyRule
from mqlab.broker.security.patterns import check_pattern
from mqlab.broker.settings import SETTING_NAMES, SettingError, Settings
from mqlab.broker.yaml_file import YamlNode, read_yaml

UNITS: Final = {"B": 1, "KB": 10**3, "KiB": 2**10, "MB": 10**6, "MiB": 2**20, "GB": 10**9, "GiB": 2**30}

# Among the whole numbers, those that are bytes.
_BYTES: Final = frozenset((
    "memory_limit", "max_message_size", "producer_window", "segment_size", "log_length", "queue_limit", "save_extent",
))  # fmt: skip
_HINTS: Final[dict[str, object]] = {**get_type_hints(Settings), **get_type_hints(Policy)}
_NUMBER: Final = re.compile(r"(\d{1,15})\s?([A-Za-z]*)", re.ASCII)


def settings_from(path: Path, overrides: Mapping[str, Any] | None = None) -> Settings:
    """The settings of a file; `overrides`, as from command-line options, come before what it says."""
    read = _read(path)
    try:
        return Settings.flat(**{**read.values, **(overrides or {})})
    except SettingError as error:
        # An error names the settings it is about before it quotes a value.
        named = re.findall(r"\w+", str(error).partition("'")[0])
        lines = [read.lines[name] for name in named if name in read.lines and name not in (overrides or {})]
        raise SettingError(f"{path}:{lines[0]}: {error}" if lines else str(error)) from None


def read_config(path: Path) -> dict[str, Any]:
    """What a file says, as values for Settings.flat, which checks how they go together."""
    return _read(path).values


def example() -> str:
    """A file with every key, its default and what follows from it."""
    return EXAMPLE


def parse_value(key: str, text: str, folder: Path = Path()) -> Any:
    """The value of a setting from its text: `8MiB`, `yes`, `none`, or a path, which `folder` is the start of."""
    hint = _HINTS.get(key)
    if key not in SETTING_NAMES or hint is Policies:
        raise SettingError(f"there is no setting {key[:80]!r} with one value")
    if hint is int:
        return _whole(key, text)
    if hint is bool:
        if text not in ("yes", "no", "true", "false"):
            raise SettingError(f"{text[:80]!r} is neither yes nor no")
        return text in ("yes", "true")
    if hint == Path | None:
        if not text:
            raise SettingError("is empty; write a path, or none")
        return None if text == "none" else folder / text
    if key in ("remotes", "channels"):
        return () if text == "none" else (_named(key, text),)
    if key == "web_origins":
        return () if text == "none" else (text.lower(),)
    if key == "listen":
        scheme, _, rest = text.partition(":")
        return (f"unix:{folder / rest}" if scheme == "unix" and rest else text,)
    return "" if hint is str and text == "none" else text


def _named(key: str, text: str) -> Any:
    """One of several, as an option gives it: `orders=queue:orders@B`, `B=tcp:127.0.0.1:7766`."""
    name, equals, rest = text.partition("=")
    if not equals:
        form = "B=tcp:127.0.0.1:7766" if key == "channels" else "orders=queue:orders@B"
        raise SettingError(f"{text[:80]!r} has no name in front; write {form}")
    if key == "remotes":
        return name, rest
    try:
        return ChannelSettings(name, rest)
    except ChannelError as error:
        raise SettingError(str(error)) from None


def _whole(key: str, text: str) -> int:
    found = _NUMBER.fullmatch(text)
    if found is not None and not found[2]:
        return int(found[1])
    if found is not None and key in _BYTES and found[2] in UNITS:
        return int(found[1]) * UNITS[found[2]]
    form = "size; write a number of bytes, 64KiB or 8MB" if key in _BYTES else "whole number"
    raise SettingError(f"{text[:80]!r} is no {form}")


class _Read(NamedTuple):
    values: dict[str, Any]
    lines: dict[str, int]


def _read(path: Path) -> _Read:
    parts = read_yaml(path).mapping(SETTING_NAMES)
    return _Read({key: _value(key, part) for key, part in parts.items()}, {k: part.line for k, part in parts.items()})


def _value(key: str, part: YamlNode) -> Any:
    if key == "policies":
        return Policies(tuple(_rule(item) for item in part.items()))
    if key == "remotes" and not isinstance(part.value, str):
        return tuple((short, target.text()) for short, target in part.mapping().items())
    if key == "channels" and not isinstance(part.value, str):
        return tuple(_channel(item) for item in part.items())
    if key in ("listen", "web_origins") and not isinstance(part.value, str):
        return tuple(one for item in part.items() for one in _parsed(key, item))
    return _parsed(key, part)


def _parsed(key: str, part: YamlNode) -> Any:
    text = part.text()
    try:
        return parse_value(key, text, part.path.parent)
    except SettingError as error:
        raise part.error(str(error)) from None


def _channel(part: YamlNode) -> ChannelSettings:
    keys = part.mapping(CHANNEL_FIELDS)
    missing = [key for key in ("to", "address") if key not in keys]
    if missing:
        raise part.error(f"a channel needs {missing[0]}")
    values: dict[str, Any] = {}
    for key, value in keys.items():
        text = value.text()
        try:
            if key in ("batch", "retry"):
                values[key] = _whole(key, text)
            else:
                values[key] = part.path.parent / text if key in ("password_file", "ca") else text
        except SettingError as error:
            raise value.error(str(error)) from None
    try:
        return ChannelSettings(**values)
    except ChannelError as error:
        raise part.error(str(error)) from None


def _rule(part: YamlNode) -> PolicyRule:
    keys = part.mapping(("match", *POLICY_FIELDS))
    if "match" not in keys:
        raise part.error("a rule needs match: the pattern of its destinations, such as queue:orders.#")
    values = {key: _parsed(key, value) for key, value in keys.items() if key != "match"}
    rule = PolicyRule(keys["match"].text(), values)
    try:
        check_pattern(rule.pattern)
        Policies((rule,))
    except (SettingError, PolicyError) as error:
        raise part.error(str(error)) from None
    return rule
