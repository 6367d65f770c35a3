"""The runs of one pass, by name. Each is the only one of its kind, so that its figures can be told in a sentence."""

import numpy as np
from tests.pipeline.made_up import BEGIN, MEASURE, MIDDLE, SECOND, STOP, Run

from mqlab.events.schema import FAILED, INCOMPLETE, ROLLED_BACK, UNKNOWN

CASES: dict[str, Run] = {}
INJECTED = (1, 10, 1_000)
BLOCK = 1 << 22


def case(name: str, **settings: object) -> Run:
    # A scenario of its own unless it says otherwise, so that its measures are its own as well.
    run = Run(number=len(CASES), **({"scenario": name} | settings))  # type: ignore[arg-type]
    CASES[name] = run
    return run


# Classes of the audit.
case("clean").send(0, 10).send(10, 10).receive(0, 15).receive(15, 5)
case("lost").send(0, 10).receive(0, 4).receive(5, 5)
case("lost at a silent subscription", consumers=(0, 1)).send(0, 10).receive(0, 10)
case("duplicated").send(0, 10).receive(0, 10).receive(3, 2)
case("duplicated with the mark").send(0, 10).receive(0, 10).receive(3, 2, redelivered=True)
case("duplicated both ways").send(0, 10).receive(0, 10).receive(3, 2).receive(3, 2, redelivered=True)
case("delivered by the marked copies alone").send(0, 10).receive(0, 10, redelivered=True).receive(
    2, 3, redelivered=True
)
case("recovered").send(0, 10).send(10, 5, outcome=UNKNOWN).receive(0, 12)
case("out of order").send(0, 10).receive(0, 2).receive(6, 4).receive(2, 4)
case("late with the mark").send(0, 10).receive(6, 4).receive(0, 6, redelivered=True)
case("order between consumers", consumers=(0, 0)).send(0, 10).receive(5, 5, consumer=1).receive(0, 5)
case("unexpected: never sent").send(0, 10).receive(0, 12)
case("unexpected: a negative number").send(0, 10).receive(0, 10).receive(-3, 1)
case("unexpected: refused").send(0, 10).send(10, 2, outcome=FAILED).receive(0, 12)
case("unexpected: rolled back").send(0, 10).send(10, 3, outcome=ROLLED_BACK).receive(0, 13)
case("unexpected: another destination", destinations=2).send(0, 10).receive(0, 9).receive(9, 1, destination=1)
case("unexpected: a consumer that has no role").send(0, 10).receive(0, 10).receive(0, 2, consumer=7)
case("rolled back and sent again").send(0, 10, outcome=ROLLED_BACK).send(0, 10).receive(0, 10)
case("sent twice, without an answer and with one").send(0, 10, outcome=UNKNOWN).send(5, 5).receive(0, 10)
case("over the edge of a block").send(BLOCK - 7, 20).receive(BLOCK - 7, 3).receive(BLOCK - 4, 16)

# Whether a run counts.
case("said to be incomplete", status=INCOMPLETE, reason="agent 2 does not listen any more").send(0, 9).receive(0, 9)
case("an agent without a clock", offsets={1: 0}).send(0, 9).receive(0, 9)
case("without a measure phase", phases=(("warm-up", BEGIN, MEASURE),)).send(0, 9).receive(0, 9)
case("agents counted more sent", counted_sent=1_010).send(0, 1_000).receive(0, 1_000)
case("agents counted less received", counted_received=999).send(0, 1_000).receive(0, 1_000)
case("nothing in the measure phase").send(0, 9, planned=BEGIN).receive(0, 9, at=BEGIN)
case("nothing at all")

# Injected faults.
for _faults in INJECTED:
    case(f"{_faults} lost").send(0, 5_000).receive(0, 700).receive(700 + _faults, 4_300 - _faults)
    case(f"{_faults} duplicated").send(0, 5_000).receive(0, 5_000).receive(700, _faults)
    case(f"{_faults} reordered").send(0, 5_000).receive(0, 700).receive(700 + _faults, 4_300 - _faults).receive(
        700, _faults
    )

# Figures. A stall: nothing arrives for 300 ms, then all at once, while the schedule went on.
DELAYS = np.random.default_rng(1).lognormal(np.log(2e6), 0.8, 20_000).astype(np.int64)
_planned = np.linspace(MEASURE, STOP - 1, len(DELAYS)).astype(np.int64)
_stalled = (_planned >= MIDDLE) & (_planned < MIDDLE + 3 * SECOND // 10)
DELAYS[_stalled] += MIDDLE + 3 * SECOND // 10 - _planned[_stalled]
_delayed = case("known delays")
for _seq, (_at, _delay) in enumerate(zip(_planned.tolist(), DELAYS.tolist(), strict=True)):
    _delayed.sends.append(
        {
            "agent": 1, "producer": 0, "destination": 0, "first_seq": _seq, "count": 1, "bytes": 12,
            "t_planned": _at, "t_sent": _at + 1_000, "t_confirmed": _at + 1_000 + 2 * _delay, "outcome": "confirmed",
        }
    )  # fmt: skip
    _delayed.receipts.append(
        {
            "agent": 2, "consumer": 0, "producer": 0, "destination": 0, "first_seq": _seq, "count": 1, "bytes": 12,
            "ordinal": _seq, "t_received": _at + _delay, "redelivered": False, "t_acknowledged": None,
        }
    )  # fmt: skip
# Each is received in its turn, though with such delays one overtakes the other on the clock.

case("clocks apart", offsets={1: 40 * SECOND, 2: -7 * SECOND}).send(0, 10, planned=MIDDLE - 40 * SECOND).receive(
    0, 10, at=MIDDLE + 7 * SECOND + 5_000_000
)
case("at the edges").send(0, 1, planned=MEASURE - 1).send(1, 2, planned=MEASURE).send(3, 4, planned=STOP - 1).send(
    7, 8, planned=STOP
).receive(0, 1, at=MEASURE - 1).receive(1, 2, at=MEASURE).receive(3, 4, at=STOP - 1).receive(7, 8, at=STOP)
case("first of several copies").send(0, 10, planned=MIDDLE).receive(0, 10, at=MIDDLE + 2_000_000).receive(
    0, 10, at=MIDDLE + 900_000_000, redelivered=True
)

for _repetition, _messages in enumerate((1_000, 1_100, 1_300)):
    case(f"repeated {_repetition}", scenario="repeated", repetition=_repetition).send(0, _messages).receive(
        0, _messages
    )
case("repeated but void", scenario="repeated", repetition=3, counted_sent=1).send(0, 9_999).receive(0, 9_999)


def _sampled(name: str, broker: float, agents: tuple[float, ...], share: float = 0.0, **settings: object) -> None:
    """CPU in cores, over the one second between two samples of the measure phase; what lies outside must not count."""
    run = case(name, **settings).send(0, 10).receive(0, 10)
    used = {"broker": broker} | {f"agent-{n}": cpu for n, cpu in enumerate(agents, 1)}
    for source, cpu in used.items():
        sync = {"syncs": 250, "sync_seconds": share, "holds": 3, "held_seconds": 0.5} if source == "broker" else {}
        nothing = dict.fromkeys(sync, 0)
        run.sample(source, BEGIN, cpu_seconds=0.0, rss=9_000, **nothing)
        run.sample(source, MEASURE, cpu_seconds=5.0, rss=1_000, **nothing)
        run.sample(source, MIDDLE, cpu_seconds=5.0 + cpu, rss=3_000, **sync)
        run.sample(source, STOP, cpu_seconds=99.0, rss=9_000, **sync)


_sampled("idle", 0.2, (0.1, 0.3))
_sampled("bound by the disk", 0.2, (0.9, 0.1), share=0.6)
_sampled("bound by a client", 0.85, (0.3, 0.85))
_sampled("bound by the broker", 0.95, (0.9, 0.1))
_sampled("machine full of agents", 0.7, (0.6, 0.6))
_sampled("two of three runs 1", 0.95, (0.1,), scenario="majority", repetition=0)
_sampled("two of three runs 2", 0.95, (0.1,), scenario="majority", repetition=1)
_sampled("two of three runs 3", 0.1, (0.95,), scenario="majority", repetition=2)
_sampled("one of two runs 1", 0.95, (0.1,), scenario="split", repetition=0)
_sampled("one of two runs 2", 0.1, (0.1,), scenario="split", repetition=1)
