"""Faults as a study writes them."""

import re

import pytest

from mqlab.study.language.faults import FAULT_KINDS, Fault, parse_faults


def test_faults_of_a_run() -> None:
    text = "kill at 5s and slow 20ms at 10s for 500ms every 2s"
    assert parse_faults(text) == (
        Fault("kill at 5s", "kill", 5.0, 0.0, 0.0, 0.0),
        Fault("slow 20ms at 10s for 500ms every 2s", "slow", 10.0, 0.5, 2.0, 0.02),
    )
    assert parse_faults("") == ()


def test_moments_end_within_the_measure_phase() -> None:
    (again,) = parse_faults("cut at 1s for 500ms every 2s")
    assert again.moments(5.6) == [1.0, 3.0, 5.0]
    assert again.moments(5.5) == [1.0, 3.0]
    (once,) = parse_faults("lossy 1% at 1s for 2s")
    assert (once.moments(3.1), once.moments(3.0), once.amount) == ([1.0], [], 0.01)


@pytest.mark.parametrize("kind", FAULT_KINDS)
def test_every_kind_can_be_written(kind: str) -> None:
    amount = {"": "", "time": " 5ms", "percent": " 5%"}[FAULT_KINDS[kind].amount]
    (fault,) = parse_faults(f"{kind}{amount} at 1s for 1s")
    assert (fault.kind, fault.target) == (kind, FAULT_KINDS[kind].target)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("kill", "'kill' is not a fault; write kill at 5s for 2s"),
        ("burn at 5s", "'burn' is not a kind of fault; accepted: kill, restart"),
        ("kill at five", "'five' is not a time"),
        ("kill 5ms at 5s", "'kill 5ms at 5s' has an amount; write kill at 5s"),
        ("slow at 5s for 1s", "'slow at 5s for 1s' has no amount; write slow 20ms at 5s"),
        ("lossy 100% at 5s for 1s", "'100%' lets nothing pass; write a share below 100%, or cut"),
        ("stop at 5s", "'stop at 5s' has no end; write stop at 5s for 2s"),
        ("stop at 5s for 0s", "'stop at 5s for 0s' takes no time"),
        ("kill at 5s for 2s every 2s", "begins again before it ends"),
    ],
)
def test_what_is_wrong_with_a_fault(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        parse_faults(text)
