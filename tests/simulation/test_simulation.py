"""Seeded simulations of core and store, with crashes: no promise is broken, and a broken one is noticed."""

import os
from collections import Counter
from collections.abc import Callable

import pytest

from mqlab.broker.core import broker, removal
from mqlab.broker.core.durability.pending_records import PendingRecords
from mqlab.broker.core.flow import FlowControl
from mqlab.broker.core.model import span_list
from mqlab.broker.core.model.delivery_ids import take_unacknowledged
from mqlab.broker.core.model.destinations import DestinationRegistry
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.span_list import SpanList
from mqlab.broker.core.transactions.two_phase_commit import TwoPhaseCommit
from mqlab.broker.store import journal_file, segments

from .noticed_faults import notices
from .simulate import simulate

SEEDS = range(1000 if os.environ.get("MQLAB_TORTURE") else 40)
# What happened, by seed.
HAPPENED: dict[int, dict[str, int]] = {}
# Seeds within which a mistake is found; most are found by the first or second.
PATIENCE = 40


@pytest.mark.parametrize("seed", SEEDS)
def test_no_promise_is_broken(seed: int, record_property: Callable[[str, object], None]) -> None:
    try:
        happened = simulate(seed)
    except Exception as error:
        error.add_note(f"seed {seed}: python tests/simulation/simulate.py --seed {seed} repeats it")
        raise
    HAPPENED[seed] = happened
    record_property("seeds", 1)
    for what in ("crashes", "power failures", "promises", "delivered"):
        record_property(what, happened.get(what, 0))


def test_all_that_is_meant_to_happen_happens() -> None:
    """Or what is proved above would not be of much use."""
    for seed in range(20):
        if seed not in HAPPENED:
            HAPPENED[seed] = simulate(seed)
    happened: Counter[str] = Counter()
    for seed in range(20):
        happened.update(HAPPENED[seed])
    least = {
        "sent": 2000, "delivered": 3000, "redelivered": 1000, "promises": 1000, "acknowledged": 1000, "commits": 100,
        "rollbacks": 40, "recovers": 40, "prepares": 30, "decisions": 30, "duplicates": 20, "dead": 5, "refused": 20,
        "purged": 50, "moved": 50, "deleted": 1, "death": 30, "crashes": 30, "power failures": 20, "failures": 5,
        "crashes at start": 5, "stop": 4, "checkpoints": 20, "full disks": 2,
        "syncs at once": 100, "clock": 10,
    }  # fmt: skip
    assert {what: happened[what] for what, number in least.items() if happened[what] < number} == {}


def test_a_seed_repeats_exactly(capsys: pytest.CaptureFixture[str]) -> None:
    once, told = simulate(3, verbose=True), capsys.readouterr().out
    again, told_again = simulate(3, verbose=True), capsys.readouterr().out
    assert once == again
    assert told == told_again


# Mistakes, each of which some simulation must notice: where, what is there, and what is put in its place.
Mistake = tuple[object, str, object]


def at_once(self: PendingRecords, lsn: int, action: Callable[..., None], *arguments: object) -> None:  # noqa: ARG001
    action(*arguments)


def _at_the_end(self: SpanList, span: Span) -> tuple[Span]:
    return (self._link(span, None),)


MISTAKES: dict[str, Mistake] = {
    "nothing is synced": (journal_file.JournalFile, "sync", lambda _: None),
    "a file goes too early": (segments._Segment, "is_needed", property(lambda _: False)),
    "a file never goes": (segments._Segment, "is_needed", property(lambda _: True)),
    "nobody waits for the disk": (PendingRecords, "run_when_durable", at_once),
    "what comes back stands at the end": (span_list.SpanList, "insert", _at_the_end),
    "what comes back is not marked": (
        broker,
        "take_unacknowledged",
        lambda consumer, _: take_unacknowledged(consumer, 0),
    ),
    "an acknowledgement is not written": (removal, "removal_records", lambda _: []),
    "a checkpoint shows what is prepared": (TwoPhaseCommit, "placed", lambda _: set()),
    "duplicates are forgotten": (DestinationRegistry, "restore_remembered", lambda *_: None),
    "a rollback is remembered": (DestinationRegistry, "forget_ids", lambda *_: None),
    "prepared transactions are forgotten": (TwoPhaseCommit, "restore", lambda *_: None),
    "room is never given back": (FlowControl, "release", lambda *_: None),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_noticed(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, what, instead = MISTAKES[mistake]
    monkeypatch.setattr(where, what, instead)
    assert notices(simulate, PATIENCE), f"{PATIENCE} simulations, and none of them noticed that {mistake}"
