"""The settings of a broker as options, environment variables and a file."""

from dataclasses import fields
from pathlib import Path

import pytest

from mqlab.broker.config import parse_value
from mqlab.broker.config_example import EXAMPLE
from mqlab.broker.settings import SETTING_NAMES, Settings
from mqlab.cli.broker import run
from mqlab.cli.broker.common.setting_options import OPTION_NAMES, SettingHelp, option_name, setting_helps

from .command import here, mqlab


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The settings of brokers that would have been started."""
    found: list[Settings] = []
    monkeypatch.setattr(run, "serve", lambda settings, _: found.append(settings))
    return found


def test_every_setting_is_an_option_that_says_what_follows() -> None:
    about = setting_helps(EXAMPLE)
    assert set(OPTION_NAMES) == set(SETTING_NAMES) - {"policies"}
    for name in OPTION_NAMES:
        assert len(about[name].help) > 30, name
        assert about[name].panel[0].isupper(), name
        assert about[name].panel[1:].islower(), name
    said = " ".join(mqlab("broker", "--help", COLUMNS="200").stdout.split())
    for name in OPTION_NAMES:
        assert f"{option_name(name)} " in said, name


def test_the_defaults_shown_are_the_defaults() -> None:
    shown = {name: about.default for name, about in setting_helps(EXAMPLE).items()}
    values = {name: parse_value(name, shown[name]) for name in OPTION_NAMES}
    assert Settings.flat(**values) == Settings()


# A value of each setting that is not its default.
OTHERS = {
    "data": "d", "listen": "tcp:127.0.0.1:1", "open_to_network": "yes", "users": "u", "tls_certificate": "c",
    "tls_key": "k", "tls_client_ca": "a", "metrics": "127.0.0.1:2", "sync": "off", "group_delay": "3",
    "disk_marks": "4", "disk_delay": "d", "memory_limit": "5MiB", "producer_window": "6KiB", "segment_size": "70000",
    "preallocate": "no", "log_length": "8MB", "file_trace": "f", "queue_limit": "9", "message_limit": "10",
    "when_full": "refuse", "save_extent": "11KB", "retrieval": "scan", "redelivery_limit": "12",
    "dead_letters": "queue:dead", "expired": "queue:late", "duplicate_window": "13", "name": "B1",
    "monitoring": "high", "trace": "low", "trace_file": "s", "api_trace": "a", "api_trace_internal": "yes",
    "remotes": "orders=queue:orders@B2", "channels": "B2=tcp:127.0.0.1:3", "busy_wait": "14",
    "web_origins": "https://example.org", "max_message_size": "2MiB",
}  # fmt: skip


def as_option(name: str, text: str) -> list[str]:
    if text in ("yes", "no"):
        return [option_name(name) if text == "yes" else f"--no-{name.replace('_', '-')}"]
    return [option_name(name), text]


def test_each_arrives(served: list[Settings], monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(OTHERS) == set(OPTION_NAMES)
    result = here("broker", *(word for name, text in OTHERS.items() for word in as_option(name, text)))
    assert result.exit_code == 0, result.stderr
    expected = Settings.flat(**{name: parse_value(name, text) for name, text in OTHERS.items()})
    assert served == [expected]
    for kind in (Settings, type(Settings().policy)):
        for field in fields(kind):
            holder, plain = (expected, Settings()) if kind is Settings else (expected.policy, Settings().policy)
            assert field.name == "policies" or getattr(holder, field.name) != getattr(plain, field.name), field.name

    for name, text in OTHERS.items():
        monkeypatch.setenv(f"MQLAB_BROKER_{name.upper()}", text)
    assert here("broker").exit_code == 0
    assert served[1] == expected


def test_options_come_before_the_file(served: list[Settings], tmp_path: Path) -> None:
    file = tmp_path / "broker.yaml"
    file.write_text("{queue_limit: 5MiB, sync: off, policies: [{match: 'queue:a.#', message_limit: 7}]}")
    result = here("broker", "--config", file, "--queue-limit", "1KiB", "--listen", "unix:s", "--listen", "unix:t")
    assert result.exit_code == 0, result.stderr
    (found,) = served
    assert (found.policy.queue_limit, found.sync) == (1024, "off")
    assert found.listen == ("unix:s", "unix:t")
    assert found.policy_of("queue:a.b").message_limit == 7


def test_what_was_printed_as_an_example_is_a_file_that_changes_nothing(served: list[Settings], tmp_path: Path) -> None:
    file = tmp_path / "broker.yaml"
    result = here("broker", "example-config")
    assert result.exit_code == 0
    file.write_text(result.stdout)
    assert here("broker", "--config", file).exit_code == 0
    assert served == [Settings()]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("queue_limit: much", ["broker.yaml:1", "queue_limit", "'much'"]),
        ("sync: on\nspeed: 3", ["broker.yaml:2", "'speed'", "queue_limit"]),
        ("redelivery_limit: 3\ndead_letters: none", ["redelivery_limit needs dead_letters"]),
    ],
)
def test_a_bad_file_is_one_sentence(text: str, words: list[str], served: list[Settings], tmp_path: Path) -> None:
    file = tmp_path / "broker.yaml"
    file.write_text(text)
    result = here("broker", "--config", file)
    assert (result.exit_code, result.stdout, served) == (2, "", [])
    for word in words:
        assert word in " ".join(result.stderr.split())
    assert here("broker", "--config", tmp_path / "none").exit_code == 2


def test_an_option_of_the_server_is_not_lost_before_a_command(served: list[Settings]) -> None:
    result = here("broker", "--queue-limit", "5", "example-config")
    assert (result.exit_code, result.stdout, served) == (2, "", [])
    assert "--queue-limit is an option for starting a broker, not for `example-config`" in result.stderr


def test_a_bad_variable_does_not_spoil_a_command(monkeypatch: pytest.MonkeyPatch, served: list[Settings]) -> None:
    monkeypatch.setenv("MQLAB_BROKER_QUEUE_LIMIT", "much")
    assert here("broker", "example-config").exit_code == 0
    result = here("broker")
    assert (result.exit_code, served) == (2, [])
    assert "--queue-limit" in result.stderr


def test_a_setting_without_words_shares_those_before_it() -> None:
    text = "# The file\n\n# PART: more\n# One\n# and two.\na: [x]\nb: 2\n\n# OTHER\n# Three.\nc: none\n"
    found = setting_helps(text)
    assert found["a"] == SettingHelp("Part", "One and two.", "x")
    assert found["b"] == SettingHelp("Part", "One and two.", "2")
    assert found["c"] == SettingHelp("Other", "Three.", "none")
