from dataclasses import fields
from pathlib import Path

import pytest

from mqlab.broker.policy import POLICY_FIELDS, Policies, Policy, Rule
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
        ({"dead_letters": "queue:temporary.1"}, "dead_letters: 'queue:temporary.1' would go with its connection"),
        ({"sync": "maybe"}, "sync: 'maybe' is none of on, off"),
        ({"log_length": 64 * 1024 - 1}, "log_length: 65535 is not a whole number of 65536 or more"),
        ({"tls_key": Path("k")}, "tls_certificate, tls_key: give both or neither"),
    ],
)
def test_values_that_cannot_be(values: dict[str, object], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        Settings.flat(**values)


def test_a_rule_must_go_together_with_what_holds_in_general() -> None:
    """Else it would be noticed when a message arrives."""
    rules = Policies((Rule("queue:a", {"queue_limit": 5}), Rule("queue:orders", {"redelivery_limit": 3})))
    with pytest.raises(SettingError, match="policies: queue:orders: redelivery_limit needs dead_letters"):
        Settings.flat(redelivery_limit=0, dead_letters="", policies=rules)
    made = Settings.flat(message_limit=7, policies=rules)
    assert made.policy_of("queue:orders") == Policy(message_limit=7, redelivery_limit=3)
