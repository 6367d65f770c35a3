"""What a person may choose about a broker. Each field says what follows from it."""

import re
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, Literal, get_args

from mqlab.broker import limits
from mqlab.broker.channel_settings import ChannelError, ChannelSettings, check_remote
from mqlab.broker.policy import POLICY_FIELDS, Policies, Policy, PolicyError
from mqlab.errors import MqlabError
from mqlab.wire.address import BROKER_NAME, Address, BadAddressError

KIB, MIB = 1024, 1024 * 1024
_MOST_WINDOW = 1024 * MIB
_MOST_BUSY_WAIT = 1_000_000
# As browsers write it: no path, no user, no capital letters.
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^\sA-Z/?#@]+")

Sync = Literal["on", "off"]
Level = Literal["off", "low", "medium", "high"]


class SettingError(MqlabError, ValueError):
    """A setting has a value the broker cannot work with."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    # Where persistent messages are kept. None: nothing is kept, and a persistent send is refused.
    data: Path | None = None
    # "tcp:HOST:PORT" (port 0: a free one), "tls:HOST:PORT" or "unix:PATH". Other than loopback needs `users`, or
    # `open_to_network`.
    listen: tuple[str, ...] = ("tcp:127.0.0.1:7766",)
    # By which other brokers and programs in the same process know it: `queue:orders@NAME`, `bindings:NAME`. "": none.
    name: str = ""
    open_to_network: bool = False
    # A file of users with hashed passwords and rights (`mqlab broker users`). None: everybody may do everything.
    users: Path | None = None
    # Certificate chain and private key (PEM) for "tls:" addresses.
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    # Origins, "https://HOST:PORT", of web pages that may connect over WebSocket. Without any, no page may, and only
    # programs that are no browsers.
    web_origins: tuple[str, ...] = ()
    # "HOST:PORT" of the HTTP endpoint with the counters as JSON and for Prometheus. "": none.
    metrics: str = ""
    # "on": a persistent send is confirmed after the disk has it. "off": after the operating system has it, so a power
    # failure loses confirmed messages; every report of a run made with it says so.
    sync: Sync = "on"
    # Microseconds that a sync waits for others to join it, on top of what the broker finds worth while by itself.
    # More raises the rate of many waiting producers on a slow disk, and delays each of them. 0: no fixed delay.
    group_delay: int = 0
    # Microseconds that the broker goes on looking for what comes next before it sleeps. More answers sooner where one
    # message waits for another, and takes a whole core as long as messages come. 0: it sleeps at once.
    busy_wait: int = 0
    # Imitate a turning disk: a sync completes at the next of so many marks a second (15,000 turns a minute: 250).
    # 0: the disk as it is.
    disk_marks: int = 0
    # Bytes of all messages in memory above which producers are held back, whatever their queue.
    memory_limit: int = 1024 * MIB
    # Bytes of one message with its headers, or of one batch; who sends more is disconnected. More lets large documents
    # pass, and each connection may then take that much memory. It is never more than `memory_limit`.
    max_message_size: int = limits.FRAME
    # Bytes a producer may send ahead of the broker (never more than the queue limit). Few batches would starve it.
    producer_window: int = 4 * MIB
    # A journal file is closed at this size, and removed once nothing in it is needed.
    segment_size: int = 64 * MIB
    # Whether the disk space of a journal file is taken when it is begun: a full disk is then noticed before a write.
    preallocate: bool = True
    # Bytes of journal above which a checkpoint carries what is still needed in the oldest file forward, so that the
    # file can go (the studies' syncpoint). Less: quicker recovery and more rewriting.
    log_length: int = 512 * MIB
    # Names here that stand for queues of other brokers: ("orders", "queue:orders@B"). They can only be sent to.
    remotes: tuple[tuple[str, str], ...] = ()
    # Channels to other brokers, one for each: what is sent to their queues is kept here until it has arrived there.
    channels: tuple[ChannelSettings, ...] = ()
    # What holds for each destination, unless a rule of `policies` says otherwise.
    policy: Policy = field(default_factory=Policy)
    # Rules for destinations by pattern, first match wins.
    policies: Policies = field(default_factory=Policies)
    # How closely queues and channels are watched beside the counters that are always on: ages, rates, times on the
    # queue. low: every 64th message or batch, medium: every 8th, high: each.
    monitoring: Level = "low"
    # What is recorded of the applications' operations, for those that no stanza of `trace_file` is about.
    trace: Level = "off"
    # Stanzas (ApplName, Trace, TraceLevel) that say which applications are traced; read again when it has changed.
    trace_file: Path | None = None
    # A file that gets every call of every application, in and out; with `api_trace_internal` also what the core does.
    api_trace: Path | None = None
    api_trace_internal: bool = False
    # Write every call of the file layer, with its time, to this file: for proofs, not for production.
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
        least = {
            "memory_limit": 1, "producer_window": 1, "segment_size": 64 * KIB, "disk_marks": 0, "group_delay": 0,
            "log_length": 64 * KIB, "busy_wait": 0, "max_message_size": limits.FRAME_LEAST,
        }  # fmt: skip
        for name, smallest in least.items():
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
                raise SettingError(f"listen: {text} is for programs that have the broker inside; give it a name")
        for origin in self.web_origins:
            if not _ORIGIN.fullmatch(origin):
                raise SettingError(f"web_origins: {origin[:80]!r} is no origin, such as https://example.org:8443")
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise SettingError("tls_certificate, tls_key: give both or neither")

    def _check_channels(self) -> None:
        for short, target in self.remotes:
            try:
                check_remote(short, target)
            except ChannelError as error:
                raise SettingError(f"remotes: {error}") from None
        for what, names in (("remotes", [one for one, _ in self.remotes]), ("channels", [c.to for c in self.channels])):
            twice = {name for name in names if names.count(name) > 1}
            if twice:
                raise SettingError(f"{what}: {min(twice)[:80]!r} stands there twice")
        if self.channels and not self.name:
            raise SettingError("channels: a broker with channels needs a name, by which the others know it")
        if any(channel.to == self.name for channel in self.channels):
            raise SettingError(f"channels: {self.name} is this broker itself")

    def _check_policies(self) -> None:
        self._check_kept(self.policy, "")
        try:
            for rule in self.policies.rules:
                self._check_kept(replace(self.policy, **rule.values), f"policies: {rule.pattern}: ")
        except PolicyError as error:
            raise SettingError(f"policies: {rule.pattern}: {error}") from None

    def _check_kept(self, policy: Policy, where: str) -> None:
        """Messages that nobody took are kept here, and not sent to somewhere else."""
        for name in ("dead_letters", "expired"):
            short = getattr(policy, name).removeprefix("queue:")
            if "@" in short or short.startswith("transmit.") or short in dict(self.remotes):
                raise SettingError(f"{where}{name}: {getattr(policy, name)!r} leads to another broker")

    @classmethod
    def flat(cls, **values: Any) -> "Settings":
        """From values of this class and of Policy side by side, as options and files give them."""
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
        """`max_message_size` as far as the memory limit allows: bytes of a frame of the native protocol."""
        return min(self.max_message_size, max(self.memory_limit, limits.FRAME_LEAST))

    def policy_of(self, destination: str) -> Policy:
        """`destination` with its kind: queue:orders."""
        return self.policies.of(destination, self.policy)


# What `flat` accepts.
SETTING_NAMES: Final = (*(one.name for one in fields(Settings) if one.name != "policy"), *POLICY_FIELDS)

__all__ = ["KIB", "MIB", "POLICY_FIELDS", "SETTING_NAMES", "PolicyError", "SettingError", "Settings"]
