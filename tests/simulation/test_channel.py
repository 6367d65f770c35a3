"""Seeded simulations of two brokers with channels: each message arrives once, in order, and a mistake is noticed."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import partial

import pytest

from mqlab.broker.core.durability.pending_records import PendingRecords
from mqlab.broker.core.flow import FlowControl
from mqlab.broker.core.model import destinations
from mqlab.broker.server.channels.batch import ChannelBatch, ChannelSend
from mqlab.broker.server.channels.channel import SenderChannel
from mqlab.broker.server.channels.receiving_end import ReceivingEnd
from mqlab.broker.server.channels.token import ChannelToken
from mqlab.broker.store import journal_file

from .noticed_faults import notices
from .simulate import simulate_channel
from .test_simulation import Mistake, at_once

SEEDS = range(6)
FULL_SEEDS = range(3)
# Seeds within which a mistake is found; most are found by the first few.
PATIENCE = 100


def test_each_message_arrives_once_whatever_is_cut_or_killed() -> None:
    """And all that is meant to happen happens, or that would not be of much use."""
    happened: Counter[str] = Counter()
    for seed in SEEDS:
        try:
            happened.update(simulate_channel(seed))
        except Exception as error:
            error.add_note(f"seed {seed}: python tests/simulation/simulate.py --channel --seed {seed} repeats it")
            raise
    least = {
        "confirmed": 1000, "received": 1000, "redelivered": 100, "commits": 40, "cuts": 20, "deaths": 5, "kills": 3,
        "power failures": 3, "found arrived": 3,
    }  # fmt: skip
    assert {what: happened[what] for what, number in least.items() if happened[what] < number} == {}


def test_a_seed_repeats_exactly(capsys: pytest.CaptureFixture[str]) -> None:
    once, told = simulate_channel(3, verbose=True), capsys.readouterr().out
    again, told_again = simulate_channel(3, verbose=True), capsys.readouterr().out
    assert once == again
    # But for the folder, which the brokers' words name.
    assert re.sub(r"/\S+", "", told) == re.sub(r"/\S+", "", told_again)


def test_brokers_that_are_full_of_messages_for_each_other_do_not_wait_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for seed in FULL_SEEDS:
        assert simulate_channel(seed, full=True)["received"] > 0
    monkeypatch.setattr(FlowControl, "_may_overdraw", lambda _self, _producer: False)
    assert notices(partial(simulate_channel, full=True), PATIENCE)


# Mistakes, each of which some simulation must notice.
_resume, _commit, _sends = SenderChannel._resume, ReceivingEnd.commit, ChannelBatch.sends


def _know_nothing(self: SenderChannel, _token: ChannelToken | None) -> None:
    _resume(self, ChannelToken())


async def _commit_lightly(self: ReceivingEnd, token: ChannelToken, *, persistent: bool) -> None:  # noqa: ARG001
    await _commit(self, token, persistent=False)


async def _be_done_first(self: SenderChannel, receiver: ReceivingEnd, batch: ChannelBatch) -> None:
    self._sending_end.arrived(batch)
    await receiver.send(batch)
    await receiver.commit(ChannelToken.of(batch.ranges), persistent=batch.persistent)


def _last_first(self: ChannelBatch) -> Iterator[ChannelSend]:
    return reversed([*_sends(self)])


MISTAKES: dict[str, Mistake] = {
    "nobody looks at the token": (SenderChannel, "_resume", _know_nothing),
    "the token is never persistent": (ReceivingEnd, "commit", _commit_lightly),
    "a batch has arrived before it is committed": (SenderChannel, "_transfer", _be_done_first),
    "a batch goes backwards": (ChannelBatch, "sends", _last_first),
    "ids of a transmission queue are used twice": (destinations, "first_id", lambda _short, _now, known=1: known),
    "nobody waits for the disk": (PendingRecords, "run_when_durable", at_once),
    "nothing is synced": (journal_file.JournalFile, "sync", lambda _: None),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_noticed(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, what, instead = MISTAKES[mistake]
    monkeypatch.setattr(where, what, instead)
    assert notices(simulate_channel, PATIENCE), f"{PATIENCE} simulations, and none of them noticed that {mistake}"
