import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml
from hypothesis import example as also
from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.broker import limits
from mqlab.broker.channel_settings import ChannelSettings
from mqlab.broker.config import UNITS, parse_value, settings_from
from mqlab.broker.config_example import EXAMPLE
from mqlab.broker.policy import Policies, Policy, PolicyRule
from mqlab.broker.settings import SETTING_NAMES, SettingError, Settings


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "broker.yaml"


def read(path: Path, text: str) -> Settings:
    path.write_text(text)
    return settings_from(path)


# The example


def test_the_example_names_every_setting_with_its_default(path: Path) -> None:
    path.write_text(EXAMPLE)
    assert set(yaml.safe_load(EXAMPLE)) == set(SETTING_NAMES)
    assert settings_from(path) == Settings()


@pytest.mark.parametrize("name", SETTING_NAMES)
def test_the_example_says_what_follows_from_a_setting(name: str) -> None:
    lines = EXAMPLE.splitlines()
    (at,) = (number for number, line in enumerate(lines) if line.startswith(f"{name}:"))
    together = {"tls_key": "tls_certificate", "dead_letters": "redelivery_limit"}
    before = lines[at - 1]
    assert before.startswith(("# ", together.get(name, "# ") + ":"))


def test_the_rules_of_the_example_can_be_used(path: Path) -> None:
    text = EXAMPLE.replace("policies: []\n", "")
    made = read(path, re.sub(r"^# (policies:|  - )", r"\1", text, flags=re.MULTILINE))
    assert len(made.policies.rules) == 2
    assert made.policy_of("topic:prices.gold") == Policy(message_limit=1000, when_full="drop-oldest")


# What a file says


def test_a_file_becomes_settings(path: Path) -> None:
    made = read(
        path,
        """
        listen: [tcp:127.0.0.1:0, "unix:sockets/broker", unix:/run/broker]
        data: messages
        users: /etc/broker/users
        sync: off
        preallocate: no
        memory_limit: 2GiB
        queue_limit: 64 KiB
        message_limit: 1000
        expired: queue:late
        policies:
          - match: queue:orders.#
            save_extent: 1MB
          - {match: "topic:#", when_full: refuse}
        """,
    )
    here = path.parent
    assert made == Settings(
        listen=("tcp:127.0.0.1:0", f"unix:{here}/sockets/broker", "unix:/run/broker"),
        data=here / "messages",
        users=Path("/etc/broker/users"),
        sync="off",
        preallocate=False,
        memory_limit=2 * 2**30,
        policy=Policy(queue_limit=65536, message_limit=1000, expired="queue:late"),
        policies=Policies(
            (PolicyRule("queue:orders.#", {"save_extent": 10**6}), PolicyRule("topic:#", {"when_full": "refuse"}))
        ),
    )


def test_one_address_needs_no_list(path: Path) -> None:
    assert read(path, "listen: tcp:[::1]:5").listen == ("tcp:[::1]:5",)


def test_origins_are_one_several_or_none(path: Path) -> None:
    assert read(path, "web_origins: [https://A.org, http://b.org:81]").web_origins == (
        "https://a.org",
        "http://b.org:81",
    )
    assert read(path, "web_origins: https://a.org").web_origins == ("https://a.org",)
    assert read(path, "web_origins: none").web_origins == read(path, "web_origins: []").web_origins == ()
    with pytest.raises(SettingError, match=r"broker.yaml:2: web_origins: 'a.org' is not an origin"):
        read(path, "sync: off\nweb_origins: [a.org]")


def test_options_come_before_the_file(path: Path) -> None:
    path.write_text("sync: off\nqueue_limit: 5\nmessage_limit: 6\n")
    made = settings_from(path, {"sync": "on", "queue_limit": 7})
    assert made == Settings(sync="on", policy=Policy(queue_limit=7, message_limit=6))


def test_an_option_can_complete_what_the_file_begins(path: Path) -> None:
    path.write_text("tls_certificate: c.pem\n")
    with pytest.raises(SettingError, match=r"broker.yaml:1: tls_certificate, tls_key: give both"):
        settings_from(path)
    assert settings_from(path, {"tls_key": Path("k")}) == Settings(
        tls_certificate=path.parent / "c.pem", tls_key=Path("k")
    )


def test_an_option_that_is_wrong_is_not_blamed_on_the_file(path: Path) -> None:
    path.write_text("queue_limit: 5\n")
    with pytest.raises(SettingError, match=r"^queue_limit: -1 is not"):
        settings_from(path, {"queue_limit": -1})
    with pytest.raises(SettingError, match=r"^there is no setting 'speed'"):
        settings_from(path, {"speed": 1})


@pytest.mark.parametrize("unit", UNITS)
def test_sizes(unit: str) -> None:
    assert parse_value("queue_limit", f"3{unit}") == 3 * UNITS[unit]
    assert parse_value("queue_limit", f"3 {unit}") == 3 * UNITS[unit]
    assert parse_value("queue_limit", "3") == 3


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5", "1e3", "٣", "3kb", "3 TB", "3  KB", "1_000", "9" * 16, "B"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(SettingError, match=r"is not a size; write a number of bytes, 64KiB or 8MB"):
        parse_value("queue_limit", text)
    with pytest.raises(SettingError, match="is not a whole number"):
        parse_value("message_limit", text)
    with pytest.raises(SettingError, match="is not a whole number"):
        parse_value("message_limit", "1KB")


def test_values_alone() -> None:
    assert [parse_value("preallocate", text) for text in ("yes", "true", "no", "false")] == [True, True, False, False]
    assert parse_value("data", "none") is None
    assert parse_value("data", "a", Path("b")) == Path("b/a")
    assert parse_value("file_trace", "a") == Path("a")
    assert parse_value("expired", "none") == ""
    assert parse_value("retrieval", "scan") == "scan"
    for key in ("policies", "policy", "speed", "__init__"):
        with pytest.raises(SettingError, match="there is no setting"):
            parse_value(key, "1")


# What is wrong


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "broker.yaml: is empty"),
        ("just words", "broker.yaml:1: must have keys: data, listen"),
        ("\nsync: off\nspeed: 9\n", "broker.yaml:3: there is no 'speed'; there are: data, listen, .*queue_limit"),
        ("policy: {}\n", "broker.yaml:1: there is no 'policy'"),
        ("sync: off\nsync: on\n", "broker.yaml:1: sync: appears here and again in line 2"),
        ("sync: maybe\n", "broker.yaml:1: sync: 'maybe' is none of on, off"),
        ("sync: none\n", "broker.yaml:1: sync: 'none' is none of on, off"),
        ("sync:\n  - on\n", "broker.yaml:1: sync: must be a single value"),
        ("data: messages\nqueue_limit: 8 megs\n", "broker.yaml:2: queue_limit: '8 megs' is not a size"),
        ("data: messages\nqueue_limit: 0\n", "broker.yaml:2: queue_limit: 0 is not a whole number of 1 or more"),
        ("disk_marks: 1KB\n", "broker.yaml:1: disk_marks: '1KB' is not a whole number"),
        ("preallocate: perhaps\n", "broker.yaml:1: preallocate: 'perhaps' is neither yes nor no"),
        ("data:\n", "broker.yaml:1: data: is empty; write a path, or none"),
        ('data: "a\\0b"\n', "broker.yaml:1: data: has a character that cannot be printed"),
        ("listen: []\n", "broker.yaml:1: listen: name at least one address"),
        ("listen: {tcp: 1}\n", "broker.yaml:1: listen: must be a list"),
        ("dead_letters: none\n", "broker.yaml:1: redelivery_limit needs dead_letters"),
        ("policies: {match: 'queue:a'}\n", "broker.yaml:1: policies: must be a list"),
        ("policies: [x]\n", "broker.yaml:1: policies: must have keys: match, queue_limit"),
        ("policies:\n- match: queue:a\n- queue_limit: 5\n", "broker.yaml:3: policies: a rule needs match"),
        ("policies:\n- match: queue:a\n  sync: on\n", "broker.yaml:3: policies: there is no 'sync'; there are: match,"),
        ("policies:\n- match: queue:a\n  queue_limit: x\n", "broker.yaml:3: policies.queue_limit: 'x' is not a size"),
        ("policies:\n- match: orders\n", "broker.yaml:2: policies: 'orders' is not a pattern"),
        ("policies:\n- match: all\n", "broker.yaml:2: policies: 'all' is not a pattern of destinations"),
        ("policies:\n- match: queue:a.#.b\n", "broker.yaml:2: policies: .*must be the last level"),
        ("policies:\n- match: queue:a\n  when_full: drop-oldest\n", "broker.yaml:2: policies: .*for topics only"),
        ("policies:\n- match: queue:a\n  retrieval: fast\n", "broker.yaml:2: policies: retrieval: 'fast' is none of"),
        ("redelivery_limit: 0\ndead_letters: none\npolicies:\n- {match: 'queue:a', redelivery_limit: 1}\n",
         "broker.yaml:3: policies: queue:a: redelivery_limit needs dead_letters"),
        ("a: &x 1\nb: *x\n", "broker.yaml:1: anchors are not accepted"),
        ("a: [1\n", "broker.yaml:2: is not YAML"),
    ],
)  # fmt: skip
def test_files_that_are_wrong(text: str, says: str, path: Path) -> None:
    with pytest.raises(SettingError, match=says) as caught:
        read(path, text)
    assert str(caught.value).isprintable()


def test_files_that_cannot_be_read(path: Path) -> None:
    with pytest.raises(SettingError, match=r"broker.yaml: cannot be read: No such file"):
        settings_from(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(SettingError, match=r"broker.yaml: is not text in UTF-8"):
        settings_from(path)


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_file_has_so_many_bytes(more: int, path: Path) -> None:
    start = "sync: off\n"
    path.write_text(start + "#" * (limits.WRITTEN_FILE - len(start) + more))
    if more <= 0:
        assert settings_from(path) == Settings(sync="off")
        return
    with pytest.raises(SettingError, match="is longer than 1000000 bytes"):
        settings_from(path)


def test_nothing_in_a_file_reaches_a_terminal(path: Path) -> None:
    for text in ('"a\\n\\e[2J": 1', '"\\u202e": 1', 'sync: "\\e]0;x"', '? "\\ud800"\n: 1'):
        with pytest.raises(SettingError) as caught:
            read(path, text)
        assert str(caught.value).isprintable()


# Anything at all

words = st.sampled_from([*SETTING_NAMES, "match", "none", "on", "8MB", "queue:a.#", "topic:*", "drop-oldest", "\x1b"])
leaves = words | st.text(max_size=5) | st.integers() | st.booleans() | st.none() | st.floats()
trees = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4), max_leaves=12
)
rules = st.fixed_dictionaries({"match": st.just("topic:a.#")}, optional=dict.fromkeys(Policy.__slots__, leaves))
files = (
    st.binary(max_size=200)
    | trees.map(lambda tree: yaml.safe_dump(tree).encode())
    | st.dictionaries(words, leaves, max_size=6).map(lambda tree: yaml.safe_dump(tree).encode())
    | st.lists(rules, max_size=2).map(lambda found: yaml.safe_dump({"policies": found}).encode())
)


@settings(max_examples=400, deadline=None)
@given(files)
@also(b"[" * 3000)
@also(b"a: \x00")
@also(b"{data: ~}")
def test_any_bytes_are_settings_or_the_one_error(data: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "broker.yaml"
        path.write_bytes(data)
        said = ""
        try:
            settings_from(path)
        except SettingError as error:
            said = str(error)
        assert said.isprintable()
        assert len(said) < 2000


# Other brokers


def test_channels_and_remote_queues(path: Path) -> None:
    made = read(
        path,
        """
        name: A
        remotes: {orders: "queue:orders@B", "two words": queue:more@C}
        channels:
          - {to: B, address: "tls:other:7766", user: me, password_file: secret, ca: /etc/ca.pem, batch: 50, retry: 3}
          - {to: C, address: unix:/run/c}
        """,
    )
    assert made.remotes == (("orders", "queue:orders@B"), ("two words", "queue:more@C"))
    here = path.parent
    assert made.channels == (
        ChannelSettings("B", "tls:other:7766", "me", here / "secret", Path("/etc/ca.pem"), 50, 3),
        ChannelSettings("C", "unix:/run/c"),
    )
    assert read(path, "{remotes: none, channels: none}") == Settings()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("channels: [{to: B}]", r"broker.yaml:1: channels: a channel needs address"),
        ("name: A\nchannels: [{to: B, address: x}]", r"broker.yaml:2: channels: address: 'x' is not an address"),
        ("channels: [{to: B, address: 'unix:x', speed: 1}]", r"there is no 'speed'; there are: to, address, user"),
        ("channels: [{to: B, address: 'unix:x', batch: many}]", r"channels.batch: 'many' is not a whole number"),
        ("channels: [{to: B, address: 'unix:x', password_file: s}]", r"password_file: it needs a user"),
        ("channels: [{to: B, address: 'unix:x'}]", r"broker.yaml:1: channels: a broker with channels needs a name"),
        ("remotes: {orders: orders}", r"broker.yaml:1: remotes: 'orders' is not a queue of another broker"),
        ("remotes: [orders]", r"remotes: must have keys"),
    ],
)
def test_channels_that_cannot_be(text: str, says: str, path: Path) -> None:
    with pytest.raises(SettingError, match=says):
        read(path, text)


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("remotes", "orders=queue:orders@B", (("orders", "queue:orders@B"),)),
        ("channels", "B=tcp:127.0.0.1:1", (ChannelSettings("B", "tcp:127.0.0.1:1"),)),
        ("channels", "none", ()),
    ],
)
def test_one_of_several_as_an_option(key: str, text: str, value: object) -> None:
    assert parse_value(key, text) == value


@pytest.mark.parametrize(("key", "text"), [("remotes", "orders"), ("channels", "tcp:1"), ("channels", "B=x")])
def test_options_that_are_no_channel(key: str, text: str) -> None:
    with pytest.raises(SettingError, match=r"write orders=queue:orders@B|write B=tcp:127.0.0.1:7766|not an address"):
        parse_value(key, text)
