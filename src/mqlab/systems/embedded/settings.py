"""What may be chosen of the embedded broker in the lab: its own settings, and what only a lab can want of it."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from mqlab.broker.config import parse_value
from mqlab.broker.server.trace.stanzas import Stanza, write_stanzas
from mqlab.broker.settings import POLICY_FIELDS, SETTING_NAMES, Level, SettingError, Settings
from mqlab.systems.api import FileUse, SystemSettingError
from mqlab.systems.embedded.trace import OWN_APPLICATION

# The lab's own business: where it listens and for whom, where its data lies, and which broker talks to which. Rules by
# pattern are for other names than the lab's.
_NOT_CHOSEN: Final = frozenset((
    "data", "name", "listen", "open_to_network", "users", "tls_certificate", "tls_key", "metrics", "policies",
    "remotes", "channels", "web_origins",
))  # fmt: skip
_OF_THE_BROKER: Final = tuple(name for name in SETTING_NAMES if name not in _NOT_CHOSEN)
# `traced`: so many pairs of requester and responder are traced at the level of `trace`, and nobody else.
# `read_out`: the records of the trace are read into a file while they come.
_OF_THE_LAB: Final = ("traced", "read_out")
_CHOSEN: Final = (*_OF_THE_BROKER, *_OF_THE_LAB)
FILE_SETTINGS: Final[dict[str, FileUse]] = {"api_trace": "write", "file_trace": "write", "trace_file": "read"}
# Where the lab chooses the file.
_A_FILE_OF_ITS_OWN: Final = "yes"


@dataclass(frozen=True)
class EmbeddedSettings:
    """The settings of an embedded system, as texts turned into values."""

    values: dict[str, Any]
    traced: int | None = None
    read_out: bool = False
    # `api_trace` without a path.
    api_trace: bool = False

    @classmethod
    def of(cls, settings: dict[str, str]) -> "EmbeddedSettings":
        """Raises SystemSettingError."""
        found = cls({})
        for key, text in settings.items():
            if key not in _CHOSEN:
                raise SystemSettingError(f"the embedded broker has no setting {key!r}; it has: {', '.join(_CHOSEN)}")
            found = _with(found, key, text)
        if found.traced is not None and "trace_file" in found.values:
            raise SystemSettingError("embedded: traced writes the stanzas itself: without trace_file")
        found.settings()
        return found

    def settings(self, **of_the_lab: Any) -> Settings:
        try:
            return Settings.flat(**self.values, **of_the_lab)
        except SettingError as error:
            raise SystemSettingError(f"embedded: {error}") from error

    def shown(self) -> dict[str, Any]:
        """Every setting, also those that nobody chose."""
        own = self.settings()
        shown = {name: getattr(own.policy if name in POLICY_FIELDS else own, name) for name in _OF_THE_BROKER}
        shown = {name: str(value) if isinstance(value, Path) else value for name, value in shown.items()}
        api_trace = _A_FILE_OF_ITS_OWN if self.api_trace else shown["api_trace"]
        return {**shown, "api_trace": api_trace, "traced": self.traced, "read_out": self.read_out}

    @property
    def traces(self) -> bool:
        """Whether records of operations can come."""
        return self.settings().trace != "off" or "trace_file" in self.values

    def placed(self, folder: Path) -> dict[str, Any]:
        """Values for a broker whose data is in `folder`: beside it are the files that the lab chooses."""
        values = dict(self.values)
        if self.api_trace:
            values["api_trace"] = folder.with_name(f"{folder.name}.calls")
        if "trace_file" not in values and self.traces:
            values["trace_file"] = folder.with_name(f"{folder.name}.stanzas")
            write_stanzas(values["trace_file"], *self._stanzas())
        return values

    def _stanzas(self) -> tuple[list[Stanza], Level]:
        """Who is traced, and how all others are. Never the lab itself."""
        level, lab = self.settings().trace, Stanza(OWN_APPLICATION, "off")
        if self.traced is None:
            return [lab], level
        names = [f"{role}{number}" for number in range(self.traced) for role in ("Requester", "Responder")]
        return [lab, *(Stanza(name, level) for name in names)], "off"


def _with(found: EmbeddedSettings, key: str, text: str) -> EmbeddedSettings:
    if key == "traced":
        if not text.isascii() or not text.isdigit():
            raise SystemSettingError(f"embedded: traced: {text[:80]!r} is not a number of pairs")
        return replace(found, traced=int(text))
    if key == "read_out":
        if text not in ("yes", "no"):
            raise SystemSettingError(f"embedded: read_out: {text[:80]!r} is neither yes nor no")
        return replace(found, read_out=text == "yes")
    if key == "api_trace" and text in ("yes", "no"):
        return replace(found, api_trace=text == _A_FILE_OF_ITS_OWN)
    try:
        return replace(found, values={**found.values, key: parse_value(key, text)})
    except SettingError as error:
        raise SystemSettingError(f"embedded: {key}: {error}") from error
