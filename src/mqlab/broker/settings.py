"""The settings of a broker. The comment of each field says what follows from it."""

import re
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Final, Literal, get_args

from mqlab.broker import limits
from mqlab.broker.channel_settings import ChannelError, ChannelSettings, check_remote
from mqlab.broker.policy import POLICY_FIELDS, Policies, Policy, PolicyError, SettingValue
from mqlab.errors import MqlabError
from mqlab.wire.address import BROKER_NAME, Address, BadAddressError

KIB, MIB = 1024, 1024 * 1024
_MOST_WINDOW = 1024 * MIB
_MOST_BUSY_WAIT = 1_000_000
# As browsers write it: without path, user and capital letters.
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^\sA-Z/?#@]+")

Sync = Literal["on", "off"]
Level = Literal["off", "low", "medium", "high"]


class SettingError(MqlabError):
    """A setting has a bad value."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    # The folder of the journal. None: no journal, and persistent sends are refused.
    data: Path | None = None
    # "tcp:HOST:PORT" (port 0: a free one), "tls:HOST:PORT" or "unix:PATH". Other than loopback needs `users`, or
    # `open_to_network`.
    listen: tuple[str, ...] = ("tcp:127.0.0.1:7766",)
    # The name for other brokers (`queue:orders@NAME`) and for programs in the same process (`bindings:NAME`). "": none.
    name: str = ""
    open_to_network: bool = False
    # A file of users with hashed passwords and rights (`mqlab broker users`). None: every client may do everything.
    users: Path | None = None
    # Certificate chain and private key (PEM) for "tls:" addresses.
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    # Certificates (PEM) of authorities. A client whose certificate one of them has signed can log in without a password
    # (SASL EXTERNAL): the common name of its certificate is the user.
    tls_client_ca: Path | None = None
    # Origins, "https://HOST:PORT", of web pages that may connect over WebSocket. Without any, only programs that are
    # not browsers may.
    web_origins: tuple[str, ...] = ()
    # "HOST:PORT" of the HTTP endpoint with the counters as JSON and for Prometheus. "": none.
    metrics: str = ""
    # "on": the broker confirms a persistent send after a sync. "off": after the write to the operating system, so a
    # power failure loses confirmed messages; every report of a run made with it says so.
    sync: Sync = "on"
    # Microseconds by which group commit delays a sync, in addition to the delay that the broker chooses itself.
    # More raises the rate of many waiting producers on a slow disk, and delays each of them. 0: no fixed delay.
    group_delay: int = 0
    # Microseconds that the broker polls before it sleeps. More answers sooner where one message waits for another,
    # and takes a whole core as long as messages come. 0: it sleeps at once.
    busy_wait: int = 0
    # Simulate a rotating disk: a sync completes at the next of this many marks a second (15,000 rpm: 250). 0: off.
    disk_marks: int = 0
    # Simulate a slow disk: a sync takes longer by the seconds in this file, which may change. For tests.
    disk_delay: Path | None = None
    # Bytes of all messages in memory above which producers of all queues wait for credit.
    memory_limit: int = 1024 * MIB
    # Bytes of one message with its headers, or of one batch; the broker disconnects a client that sends more. More lets
    # large documents pass, and each connection may take that much memory. It is never more than `memory_limit`.
    max_message_size: int = limits.FRAME
    # The credit of a producer in bytes (never more than the queue limit). A few batches would make it wait too often.
    producer_window: int = 4 * MIB
    # The size of a journal file; the broker deletes a file when it needs nothing in it.
    segment_size: int = 64 * MIB
    # Allocate the disk space of a journal file at its beginning, so that a full disk is noticed before a write.
    preallocate: bool = True
    # Bytes of journal above which a checkpoint repeats the records of the oldest file that are still needed, and
    # deletes the file (the studies' syncpoint). Less: quicker recovery and more rewriting.
    log_length: int = 512 * MIB
    # Local names of queues of other brokers: ("orders", "queue:orders@B"). Clients can only send to them.
    remotes: tuple[tuple[str, str], ...] = ()
    # One channel to each other broker: messages to its queues wait here until they have arrived there.
    channels: tuple[ChannelSettings, ...] = ()
    # The policy of destinations that no rule of `policies` matches.
    policy: Policy = field(default_factory=Policy)
    # Rules by pattern; the first match wins.
    policies: Policies = field(default_factory=Policies)
    # How many messages or batches are sampled for ages, rates and times on the queue. low: every 64th, medium: every
    # 8th, high: each. Counters are always on.
    monitoring: Level = "low"
    # The level of the activity trace for applications that no stanza of `trace_file` matches.
    trace: Level = "off"
    # Stanzas (ApplName, Trace, TraceLevel) that choose applications; the broker reads the file again when it changes.
    trace_file: Path | None = None
    # The file of the API trace: each frame of each application; with `api_trace_internal` also effects of the core.
    api_trace: Path | None = None
    api_trace_internal: bool = False
    # A file for all calls of the file layer with their times: for proofs, not for production.
    file_trace: Path | None = None

    def __post_init__(self) -> None:
        self._check_words()
        self._check_numbers()
        self._check_addresses()
        self._check_channels()
        self._check_policies()

    def _check_words(self) -> None:
        for name, accepted in (("sync", Sync), ("monitoring", Level), ("trace", Level)):
            if getattr(self, name) not in get_args(accepted):
                raise SettingError(f"{name}: {getattr(self, name)!r} is none of {', '.join(get_args(accepted))}")
        if self.name and not BROKER_NAME.fullmatch(self.name):
            raise SettingError(f"name: {self.name[:80]!r} is not 1 to 48 letters, digits, _ and -")

    def _check_numbers(self) -> None:
        minimums = {
            "memory_limit": 1, "producer_window": 1, "segment_size": 64 * KIB, "disk_marks": 0, "group_delay": 0,
            "log_length": 64 * KIB, "busy_wait": 0, "max_message_size": limits.FRAME_LEAST,
        }  # fmt: skip
        for name, smallest in minimums.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < smallest:
                raise SettingError(f"{name}: {value!r} is not a whole number of {smallest} or more")
        if self.busy_wait > _MOST_BUSY_WAIT:
            raise SettingError(f"busy_wait: {self.busy_wait} is more than {_MOST_BUSY_WAIT}")
        if self.producer_window > _MOST_WINDOW:
            raise SettingError(f"producer_window: {self.producer_window} is more than {_MOST_WINDOW}")
        if self.max_message_size > limits.FRAME_MOST:
            raise SettingError(f"max_message_size: {self.max_message_size} is more than {limits.FRAME_MOST}")

    def _check_addresses(self) -> None:
        if not self.listen and not self.name:
            # A broker with a name may be hosted by an application (`LocalBroker`), which needs no address.
            raise SettingError("listen: name at least one address, such as tcp:127.0.0.1:7766 or unix:/tmp/broker")
        for text in self.listen:
            try:
                address = Address.parse(text)
            except BadAddressError as error:
                raise SettingError(f"listen: {error}") from None
            if address.broker:
                raise SettingError(f"listen: {text} is for programs in the broker's process; use `name` instead")
        for origin in self.web_origins:
            if not _ORIGIN.fullmatch(origin):
                raise SettingError(f"web_origins: {origin[:80]!r} is not an origin, such as https://example.org:8443")
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise SettingError("tls_certificate, tls_key: give both or neither")
        if self.tls_client_ca is not None and (self.tls_certificate is None or self.users is None):
            raise SettingError("tls_client_ca: needs tls_certificate, tls_key and users")

    def _check_channels(self) -> None:
        for short, target in self.remotes:
            try:
                check_remote(short, target)
            except ChannelError as error:
                raise SettingError(f"remotes: {error}") from None
        for setting, names in (
            ("remotes", [short for short, _ in self.remotes]),
            ("channels", [c.to for c in self.channels]),
        ):
            twice = {name for name in names if names.count(name) > 1}
            if twice:
                raise SettingError(f"{setting}: {min(twice)[:80]!r} appears twice")
        if self.channels and not self.name:
            raise SettingError("channels: a broker with channels needs a name, by which other brokers know it")
        if any(channel.to == self.name for channel in self.channels):
            raise SettingError(f"channels: {self.name} is this broker itself")

    def _check_policies(self) -> None:
        self._check_dead_letters(self.policy, "")
        try:
            for rule in self.policies.rules:
                self._check_dead_letters(replace(self.policy, **rule.values), f"policies: {rule.pattern}: ")
        except PolicyError as error:
            raise SettingError(f"policies: {rule.pattern}: {error}") from None

    def _check_dead_letters(self, policy: Policy, prefix: str) -> None:
        """Dead letters and expired messages must stay in this broker."""
        for name in ("dead_letters", "expired"):
            short = getattr(policy, name).removeprefix("queue:")
            if "@" in short or short.startswith("transmit.") or short in dict(self.remotes):
                raise SettingError(f"{prefix}{name}: {getattr(policy, name)!r} leads to another broker")

    @classmethod
    def flat(cls, **values: SettingValue) -> "Settings":
        """Create settings from values of this class and of Policy, as options and files give them."""
        unknown = [name for name in values if name not in SETTING_NAMES]
        if unknown:
            raise SettingError(f"there is no setting {unknown[0][:80]!r}; there are: {', '.join(SETTING_NAMES)}")
        own = {name: value for name, value in values.items() if name not in POLICY_FIELDS}
        try:
            policy = Policy(**{name: value for name, value in values.items() if name in POLICY_FIELDS})
        except PolicyError as error:
            raise SettingError(str(error)) from None
        return cls(policy=policy, **own)

    @property
    def frame_limit(self) -> int:
        """The limit of a native frame in bytes: `max_message_size`, or the memory limit if that is less."""
        return min(self.max_message_size, max(self.memory_limit, limits.FRAME_LEAST))

    def policy_of(self, destination: str) -> Policy:
        """`destination` has its kind: queue:orders."""
        return self.policies.of(destination, self.policy)


# The names that `flat` accepts.
SETTING_NAMES: Final = (*(setting.name for setting in fields(Settings) if setting.name != "policy"), *POLICY_FIELDS)

__all__ = ["KIB", "MIB", "POLICY_FIELDS", "SETTING_NAMES", "PolicyError", "SettingError", "Settings"]
