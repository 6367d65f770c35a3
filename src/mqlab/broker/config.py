"""The configuration file of a broker: YAML with the names of Settings and Policy as keys; `EXAMPLE` shows all.

Paths are relative to the file, sizes are bytes or have a unit, `policies` is a list of rules with `match`.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple, get_type_hints

from mqlab.broker.channel_settings import CHANNEL_FIELDS, ChannelError, ChannelSettings
from mqlab.broker.policy import POLICY_FIELDS, Policies, Policy, PolicyError, PolicyRule, SettingValue
from mqlab.broker.security.patterns import check_pattern
from mqlab.broker.settings import SETTING_NAMES, SettingError, Settings
from mqlab.broker.yaml_file import YamlNode, read_yaml

UNITS: Final = {"B": 1, "KB": 10**3, "KiB": 2**10, "MB": 10**6, "MiB": 2**20, "GB": 10**9, "GiB": 2**30}

# Settings in bytes.
_BYTES: Final = frozenset((
    "memory_limit", "max_message_size", "producer_window", "segment_size", "log_length", "queue_limit", "save_extent",
))  # fmt: skip
_HINTS: Final[dict[str, object]] = {**get_type_hints(Settings), **get_type_hints(Policy)}
_NUMBER: Final = re.compile(r"(\d{1,15})\s?([A-Za-z]*)", re.ASCII)


def settings_from(path: Path, overrides: Mapping[str, SettingValue] | None = None) -> Settings:
    """The settings of a file; `overrides`, such as command-line options, take precedence."""
    config = _read(path)
    try:
        return Settings.flat(**{**config.values, **(overrides or {})})
    except SettingError as error:
        # An error names its settings before it quotes a value.
        named = re.findall(r"\w+", str(error).partition("'")[0])
        lines = [config.lines[name] for name in named if name in config.lines and name not in (overrides or {})]
        raise SettingError(f"{path}:{lines[0]}: {error}" if lines else str(error)) from None


def parse_value(key: str, text: str, folder: Path = Path()) -> SettingValue:
    """Parse the value of a setting: `8MiB`, `yes`, `none`, or a path relative to `folder`."""
    hint = _HINTS.get(key)
    if key not in SETTING_NAMES or hint is Policies:
        raise SettingError(f"there is no setting {key[:80]!r} with one value")
    if hint is int:
        return _whole_number(key, text)
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


def _named(key: str, text: str) -> SettingValue:
    """One item of a repeated option: `orders=queue:orders@B`, `B=tcp:127.0.0.1:7766`."""
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


def _whole_number(key: str, text: str) -> int:
    match = _NUMBER.fullmatch(text)
    if match is not None and not match[2]:
        return int(match[1])
    if match is not None and key in _BYTES and match[2] in UNITS:
        return int(match[1]) * UNITS[match[2]]
    form = "size; write a number of bytes, 64KiB or 8MB" if key in _BYTES else "whole number"
    raise SettingError(f"{text[:80]!r} is not a {form}")


class _Config(NamedTuple):
    values: dict[str, SettingValue]
    lines: dict[str, int]


def _read(path: Path) -> _Config:
    nodes = read_yaml(path).mapping(SETTING_NAMES)
    return _Config({key: _value(key, node) for key, node in nodes.items()}, {k: node.line for k, node in nodes.items()})


def _value(key: str, node: YamlNode) -> SettingValue:
    if key == "policies":
        return Policies(tuple(_rule(item) for item in node.items()))
    if key == "remotes" and not isinstance(node.value, str):
        return tuple((short, target.text()) for short, target in node.mapping().items())
    if key == "channels" and not isinstance(node.value, str):
        return tuple(_channel(item) for item in node.items())
    if key in ("listen", "web_origins") and not isinstance(node.value, str):
        return tuple(value for item in node.items() for value in _parsed(key, item))
    return _parsed(key, node)


def _parsed(key: str, node: YamlNode) -> SettingValue:
    text = node.text()
    try:
        return parse_value(key, text, node.path.parent)
    except SettingError as error:
        raise node.error(str(error)) from None


def _channel(node: YamlNode) -> ChannelSettings:
    keys = node.mapping(CHANNEL_FIELDS)
    missing = [key for key in ("to", "address") if key not in keys]
    if missing:
        raise node.error(f"a channel needs {missing[0]}")
    values: dict[str, SettingValue] = {}
    for key, value in keys.items():
        text = value.text()
        try:
            if key in ("batch", "retry"):
                values[key] = _whole_number(key, text)
            else:
                values[key] = node.path.parent / text if key in ("password_file", "ca") else text
        except SettingError as error:
            raise value.error(str(error)) from None
    try:
        return ChannelSettings(**values)
    except ChannelError as error:
        raise node.error(str(error)) from None


def _rule(node: YamlNode) -> PolicyRule:
    keys = node.mapping(("match", *POLICY_FIELDS))
    if "match" not in keys:
        raise node.error("a rule needs match: the pattern of its destinations, such as queue:orders.#")
    values = {key: _parsed(key, value) for key, value in keys.items() if key != "match"}
    rule = PolicyRule(keys["match"].text(), values)
    try:
        check_pattern(rule.pattern)
        Policies((rule,))
    except (SettingError, PolicyError) as error:
        raise node.error(str(error)) from None
    return rule
