from dataclasses import fields
from pathlib import Path
from typing import Unpack

import pytest

from broker.option_types import ChannelValues
from mqlab.broker import limits
from mqlab.broker.channel_settings import ChannelError, ChannelSettings
from mqlab.broker.policy import POLICY_FIELDS, Policies, Policy, PolicyRule
from mqlab.broker.settings import SETTING_NAMES, SettingError, Settings


def test_flat_values_find_their_place() -> None:
    made = Settings.flat(data=Path("d"), sync="off", queue_limit=5, retrieval="scan")
    assert made == Settings(data=Path("d"), sync="off", policy=Policy(queue_limit=5, retrieval="scan"))
    assert Settings.flat() == Settings()


def test_no_name_stands_for_two_things() -> None:
    assert not {one.name for one in fields(Settings)} & set(POLICY_FIELDS)
    assert len(set(SETTING_NAMES)) == len(SETTING_NAMES)
    assert set(SETTING_NAMES) == ({one.name for one in fields(Settings)} - {"policy"}) | set(POLICY_FIELDS)


def test_unknown_names_are_told_what_there_is() -> None:
    for name in ("speed", "policy", "queue limit", "\n"):
        with pytest.raises(SettingError, match=r"no setting .*; there are: data, listen, .*, queue_limit,") as caught:
            Settings.flat(**{"sync": "on", name: 1})
        assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"queue_limit": 0}, "queue_limit: 0 is not a whole number of 1 or more"),
        ({"when_full": "wait"}, "when_full: 'wait' is none of hold, refuse, drop-oldest"),
        (
            {"dead_letters": "queue:temporary.1"},
            "dead_letters: 'queue:temporary.1' would be deleted with its connection",
        ),
        ({"sync": "maybe"}, "sync: 'maybe' is none of on, off"),
        ({"log_length": 64 * 1024 - 1}, "log_length: 65535 is not a whole number of 65536 or more"),
        ({"tls_key": Path("k")}, "tls_certificate, tls_key: give both or neither"),
        ({"tls_client_ca": Path("a")}, "tls_client_ca: needs tls_certificate, tls_key and users"),
    ],
)
def test_values_that_cannot_be(values: dict[str, object], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        Settings.flat(**values)


def test_a_rule_must_go_together_with_what_holds_in_general() -> None:
    """Else it would be noticed when a message arrives."""
    rules = Policies((PolicyRule("queue:a", {"queue_limit": 5}), PolicyRule("queue:orders", {"redelivery_limit": 3})))
    with pytest.raises(SettingError, match="policies: queue:orders: redelivery_limit needs dead_letters"):
        Settings.flat(redelivery_limit=0, dead_letters="", policies=rules)
    made = Settings.flat(message_limit=7, policies=rules)
    assert made.policy_of("queue:orders") == Policy(message_limit=7, redelivery_limit=3)


class ChannelFields(ChannelValues, total=False):
    to: str
    address: str


def channel(to: str = "B", address: str = "unix:b", **more: Unpack[ChannelValues]) -> ChannelSettings:
    return ChannelSettings(to, address, **more)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"channels": (channel(),)}, "channels: a broker with channels needs a name"),
        ({"name": "B", "channels": (channel(),)}, "channels: B is this broker itself"),
        ({"name": "A", "channels": (channel(), channel())}, "channels: 'B' appears twice"),
        ({"remotes": (("a", "queue:a@B"), ("a", "queue:b@B"))}, "remotes: 'a' appears twice"),
        ({"remotes": (("a@A", "queue:a@B"),)}, "remotes: 'a@A' is not a name for a remote queue"),
        ({"remotes": (("a", "queue:a"),)}, "remotes: 'queue:a' is not a queue of another broker"),
        ({"remotes": (("a", "topic:a@B"),)}, "remotes: 'topic:a@B' is not a queue"),
        ({"remotes": (("transmit.B", "queue:a@B"),)}, "remotes: 'transmit.B' is not a name for a remote queue"),
        ({"dead_letters": "queue:dead@B"}, "dead_letters: 'queue:dead@B' leads to another broker"),
        ({"expired": "queue:transmit.B"}, "expired: 'queue:transmit.B' leads to another broker"),
        ({"remotes": (("dead-letters", "queue:a@B"),)}, "dead_letters: 'queue:dead-letters' leads to another broker"),
        ({"policies": Policies((PolicyRule("queue:a", {"expired": "queue:a@B"}),))}, "policies: queue:a: expired: "),
    ],
)
def test_channels_that_cannot_be(values: dict[str, object], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        Settings.flat(**values)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"to": ""}, "to: '' is not 1 to 48"),
        ({"to": "a.b"}, "to: 'a.b' is not"),
        ({"address": "tcp:x"}, "address: "),
        ({"batch": 0}, "batch: 0 is not a whole number from 1 to 100000"),
        ({"batch": True}, "batch: True is not"),
        ({"retry": 3601}, "retry: 3601 is not a whole number from 1 to 3600"),
        ({"password_file": Path("p")}, "password_file: it needs a user"),
    ],
)
def test_a_channel_that_cannot_be(values: ChannelFields, says: str) -> None:
    with pytest.raises(ChannelError, match=says):
        channel(**values)


@pytest.mark.parametrize(
    "origin", ["", "example.org", "https://", "https://a.org/", "https://a.org/x", "https://me@a.org", "null", "*",
               "https://a.org https://b.org", "https://A.org", "HTTPS://a.org"],
)  # fmt: skip
def test_what_is_no_origin(origin: str) -> None:
    """No page could ever have it, or everybody's could."""
    with pytest.raises(SettingError, match=r"web_origins: .* is not an origin, such as https://example\.org:8443"):
        Settings(web_origins=(origin,))


def test_origins_as_browsers_write_them() -> None:
    origins = ("https://a.org", "http://localhost:8000", "http://[::1]:80", "chrome-extension://abcdef")
    assert Settings(web_origins=origins).web_origins == origins


def test_the_size_of_a_message_has_limits_of_its_own() -> None:
    """The memory limit bounds it, too, but a broker with little memory still takes a frame of the least size."""
    least, most = limits.FRAME_LEAST, limits.FRAME_MOST
    for size in (least, least + 1, most - 1, most):
        assert Settings(max_message_size=size, memory_limit=2 * most).frame_limit == size
    for size in (least - 1, most + 1, 0):
        with pytest.raises(SettingError, match="max_message_size"):
            Settings(max_message_size=size)
    assert Settings().frame_limit == limits.FRAME
    assert Settings(memory_limit=limits.FRAME - 1).frame_limit == limits.FRAME - 1
    assert Settings(memory_limit=1).frame_limit == least
