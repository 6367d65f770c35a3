"""The settings of the embedded broker in the lab: those of the broker, and two of the lab."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from mqlab.broker.config import parse_value
from mqlab.broker.server.trace.stanzas import Stanza, write_stanzas
from mqlab.broker.settings import POLICY_FIELDS, SETTING_NAMES, Level, SettingError, Settings
from mqlab.systems.api import FileUse, SystemSettingError
from mqlab.systems.embedded.trace import OWN_APPLICATION

# The lab sets these itself: listeners, access, data, channels. Policies by pattern do not fit the lab's names.
_SET_BY_LAB: Final = frozenset((
    "data", "name", "listen", "open_to_network", "users", "tls_certificate", "tls_key", "tls_client_ca", "metrics",
    "policies", "remotes", "channels", "web_origins", "disk_delay",
))  # fmt: skip
_BROKER_SETTINGS: Final = tuple(name for name in SETTING_NAMES if name not in _SET_BY_LAB)
# `traced`: how many pairs of requester and responder are traced at the level of `trace`; no other application is.
# `read_out`: the lab reads the records of the activity trace into a file while they come.
# `switchable`: the lab can switch `LIVE_SETTINGS` while the broker runs; the lab sets it where a study has `switch`.
_LAB_SETTINGS: Final = ("traced", "read_out", "switchable")
_SETTINGS: Final = (*_BROKER_SETTINGS, *_LAB_SETTINGS)
# Settings that can be changed while the broker runs.
LIVE_SETTINGS: Final = ("monitoring", "trace", "traced", "read_out", "api_trace")
FILE_SETTINGS: Final[dict[str, FileUse]] = {"api_trace": "write", "file_trace": "write", "trace_file": "read"}
# The value of `api_trace` for a file that the lab names.
_LAB_FILE: Final = "yes"


@dataclass(frozen=True)
class EmbeddedSettings:
    values: dict[str, object]
    traced: int | None = None
    read_out: bool = False
    switchable: bool = False
    # Whether there is an API trace, into a file that the lab names. None: nothing was said of it.
    api_trace: bool | None = None

    @classmethod
    def parse(cls, settings: dict[str, str]) -> "EmbeddedSettings":
        """Raises SystemSettingError."""
        parsed = cls({})
        for key, text in settings.items():
            if key not in _SETTINGS:
                raise SystemSettingError(f"the embedded broker has no setting {key!r}; it has: {', '.join(_SETTINGS)}")
            parsed = _with(parsed, key, text)
        if parsed.traced is not None and "trace_file" in parsed.values:
            raise SystemSettingError("embedded: traced writes the stanzas itself: without trace_file")
        if parsed.switchable and "trace_file" in parsed.values:
            raise SystemSettingError("embedded: settings that are switched write the stanzas: without trace_file")
        parsed.settings()
        return parsed

    def settings(self, **lab_values: object) -> Settings:
        try:
            return Settings.flat(**self.values, **lab_values)
        except SettingError as error:
            raise SystemSettingError(f"embedded: {error}") from error

    def describe(self) -> dict[str, object]:
        """Every setting, with defaults."""
        settings = self.settings()
        values = {
            name: getattr(settings.policy if name in POLICY_FIELDS else settings, name) for name in _BROKER_SETTINGS
        }
        values = {name: str(value) if isinstance(value, Path) else value for name, value in values.items()}
        api_trace = _LAB_FILE if self.api_trace else values["api_trace"]
        return {**values, "api_trace": api_trace, "traced": self.traced, "read_out": self.read_out}

    @property
    def traces(self) -> bool:
        """Whether the broker writes an activity trace, or may have to."""
        return self.switchable or self.settings().trace != "off" or "trace_file" in self.values

    @property
    def switches_api_trace(self) -> bool:
        """Whether the broker has a file for an API trace that is off at first."""
        return self.switchable and self.api_trace is False

    def with_files(self, folder: Path) -> dict[str, object]:
        """The values for a broker with its data in `folder`; the files that the lab names are beside it."""
        values = dict(self.values)
        if self.api_trace or self.switches_api_trace:
            values["api_trace"] = folder.with_name(f"{folder.name}.calls")
        if "trace_file" not in values and self.traces:
            values["trace_file"] = self.write_stanzas(folder)
        return values

    def write_stanzas(self, folder: Path) -> Path:
        """Write the file of stanzas for a broker with its data in `folder`, whole or not at all."""
        stanzas = folder.with_name(f"{folder.name}.stanzas")
        unfinished = stanzas.with_suffix(".unfinished")
        write_stanzas(unfinished, *self.stanzas())
        return unfinished.replace(stanzas)

    def stanzas(self) -> tuple[list[Stanza], Level]:
        """The applications that are traced, and the level of all others. The lab itself is never traced."""
        level, lab = self.settings().trace, Stanza(OWN_APPLICATION, "off")
        if self.traced is None:
            return [lab], level
        names = [f"{role}{number}" for number in range(self.traced) for role in ("Requester", "Responder")]
        return [lab, *(Stanza(name, level) for name in names)], "off"


def _with(parsed: EmbeddedSettings, key: str, text: str) -> EmbeddedSettings:
    if key == "traced":
        if not text.isascii() or not text.isdigit():
            raise SystemSettingError(f"embedded: traced: {text[:80]!r} is not a number of pairs")
        return replace(parsed, traced=int(text))
    if key in ("read_out", "switchable"):
        if text not in ("yes", "no"):
            raise SystemSettingError(f"embedded: {key}: {text[:80]!r} is neither yes nor no")
        is_on = text == "yes"
        return replace(parsed, read_out=is_on) if key == "read_out" else replace(parsed, switchable=is_on)
    if key == "api_trace" and text in ("yes", "no"):
        return replace(parsed, api_trace=text == _LAB_FILE)
    try:
        return replace(parsed, values={**parsed.values, key: parse_value(key, text)})
    except SettingError as error:
        raise SystemSettingError(f"embedded: {key}: {error}") from error
