"""The runs of one pass, by name. Each is the only one of its kind, so that its figures can be told in a sentence."""

from typing import Unpack

import numpy as np

from mqlab.events.schema import FAILED, INCOMPLETE, ROLLED_BACK, UNKNOWN
from mqlab.study.exhibit import Exhibit, MetricView
from pipeline.synthetic_runs import BEGIN, MEASURE, MIDDLE, SECOND, STOP, OneWayValues, Run, RunValues
from table_rows import Row

CASES: dict[str, Run] = {}
INJECTED = (1, 10, 1_000)
BLOCK = 1 << 22


def case(name: str, **values: Unpack[OneWayValues]) -> Run:
    # A scenario of its own unless it says otherwise, so that its measures are its own as well.
    values.setdefault("scenario", name)
    run = Run(number=len(CASES), **values)
    CASES[name] = run
    return run


def asking(name: str, **values: Unpack[RunValues]) -> Run:
    values.setdefault("scenario", name)
    run = Run.asking(number=len(CASES), **values)
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
case("overtaken by a higher priority", declared={"priority": "0 to 9"}).send(0, 10).receive(6, 4).receive(0, 6)
case("of one priority", declared={"priority": "7"}).send(0, 10).receive(6, 4).receive(0, 6)
case("with keys", declared={"key": "zipf 10"}).send(0, 10).receive(6, 4).receive(0, 5)
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
case("sent again, and received as often").send(0, 10, outcome=UNKNOWN).send(0, 10).receive(0, 10).receive(0, 3)
case("sent again, and received more often").send(0, 10, outcome=UNKNOWN).send(0, 10).receive(0, 10).receive(
    0, 10
).receive(4, 2)
case("over the edge of a block").send(0, BLOCK - 7).receive(0, BLOCK - 7).send(BLOCK - 7, 20).receive(
    BLOCK - 7, 3
).receive(BLOCK - 4, 16)

# Whether a run counts.
case("said to be incomplete", status=INCOMPLETE, reason="agent 2 does not listen any more").send(0, 9).receive(0, 9)
case("an agent without a clock", offsets={1: 0}).send(0, 9).receive(0, 9)
case("without a measure phase", phases=(("warm-up", BEGIN, MEASURE),)).send(0, 9).receive(0, 9)
case("agents counted more sent", counted_sent=1_010).send(0, 1_000).receive(0, 1_000)
case("agents counted less received", counted_received=999).send(0, 1_000).receive(0, 1_000)
case("nothing in the measure phase").send(0, 9, planned=BEGIN).receive(0, 9, at=BEGIN)
case("nothing at all")

# A record that contradicts itself, and messages that are not those that were sent.
case("a gap in the sends").send(0, 5).send(8, 2).receive(0, 5).receive(8, 2)
case("a gap before the first send").send(1, 9).receive(1, 9)
case("a gap as long as what was sent twice").send(0, 4).send(2, 2, outcome=UNKNOWN).send(6, 4).receive(0, 4).receive(
    6, 4
)
case("a gap in the sends of the second producer", producers=2).send(0, 3).send(0, 3, producer=1).send(
    5, 1, producer=1
).receive(0, 3).receive(0, 3, producer=1).receive(5, 1, producer=1)
case("received before it was sent").send(0, 10).receive(0, 4, at=MIDDLE - 1).receive(4, 6)
case("sent after its planned time, received between").send(0, 1, t_sent=MIDDLE + 9).receive(0, 1, at=MIDDLE + 8)
case("early within the error of the clocks", clock_error=500).send(0, 10).receive(0, 10, at=MIDDLE - 1_000)
case("early beyond the error of the clocks", clock_error=500).send(0, 10).receive(0, 10, at=MIDDLE - 1_001)
case("other bodies").send(0, 10).receive(0, 6, damaged=2).receive(6, 4, damaged=1)
case("another body in the warm-up").send(0, 10, planned=BEGIN).receive(0, 1, at=BEGIN, damaged=1).receive(1, 9)
asking("a reply to another request").ask(0, MIDDLE, 1_000_000).ask(1, MIDDLE, 1_000_000, mismatched=True)

# Faults of the system, and how it recovers: a message is planned every tenth of a second.
MILLISECOND = SECOND // 1000


def every_tenth(run: Run, first: int, count: int, latency_ms: int = 5) -> Run:
    for seq in range(first, first + count):
        planned = MEASURE + seq * 100 * MILLISECOND
        run.send(seq, planned=planned).receive(seq, at=planned + latency_ms * MILLISECOND)
    return run


def _killed(name: str, scenario: str = "", repetition: int = 0) -> Run:
    """Killed at 450 ms: the message planned at 500 ms is sent again, five messages come late and one once more."""
    declared: dict[str, object] = {"faults": "kill at 450ms"}
    run = every_tenth(case(name, scenario=scenario or name, repetition=repetition, declared=declared), 0, 5)
    run.fault(MEASURE + 450 * MILLISECOND, MEASURE + 850 * MILLISECOND)
    run.receive(4, at=MEASURE + 900 * MILLISECOND, redelivered=True)
    run.send(5, planned=MEASURE + 500 * MILLISECOND, outcome=UNKNOWN)
    for seq, received_ms in enumerate((910, 950, 960, 970, 980), 5):
        sent = MEASURE + (received_ms - 1) * MILLISECOND
        run.send(seq, planned=MEASURE + seq * 100 * MILLISECOND, t_sent=sent)
        run.receive(seq, at=MEASURE + received_ms * MILLISECOND)
    return run


every_tenth(_killed("killed once"), 10, 10)
# After the second fault no confirmed message arrives.
every_tenth(_killed("killed for good"), 10, 5).fault(MEASURE + 1_450 * MILLISECOND, None).send(
    15, 5, planned=MEASURE + 1_500 * MILLISECOND
)
# Of the three runs of a point, the system recovered in the first alone. In the last it confirmed nothing any more.
every_tenth(_killed("killed, and recovered", scenario="three runs", repetition=0), 10, 10)
every_tenth(_killed("the next fault is too early", scenario="three runs", repetition=1), 10, 10).fault(
    MEASURE + 960 * MILLISECOND, MEASURE + 965 * MILLISECOND
)
every_tenth(case("never served again", scenario="three runs", repetition=2), 0, 5).fault(
    MEASURE + 450 * MILLISECOND, MEASURE + 850 * MILLISECOND
).send(5, planned=MEASURE + 500 * MILLISECOND, outcome=UNKNOWN)
every_tenth(case("a fault behind the last message"), 0, 20).fault(
    MEASURE + 1_950 * MILLISECOND, MEASURE + 1_960 * MILLISECOND
)
every_tenth(case("a fault without effect"), 0, 20).fault(MEASURE + 450 * MILLISECOND, MEASURE + 460 * MILLISECOND)
every_tenth(case("a fault in an incomplete run", status=INCOMPLETE, reason="the system is gone"), 0, 5).fault(
    MEASURE + 450 * MILLISECOND, None
)

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
            "damaged": 0, "ordinal": _seq, "t_received": _at + _delay, "redelivered": False, "t_acknowledged": None,
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

# Other work on the machine. So many messages in each repetition, and whether it was disturbed.
_BUSY: Row = {"steal_seconds": 1.0, "foreign_seconds": 0.5, "foreign_name": "cc1", "disturbed": "by cc1"}
for _scenario, _runs in {
    "disturbed once": ((1, 1_000, {}), (2, 500, _BUSY), (2, 1_200, {}), (3, 1_100, {})),
    "disturbed always": ((1, 400, _BUSY), (1, 500, _BUSY), (2, 700, _BUSY)),
}.items():
    for _order, (_repetition, _messages, _machine) in enumerate(_runs):
        case(f"{_scenario} {_order}", scenario=_scenario, repetition=_repetition, machine=_machine).send(
            0, _messages
        ).receive(0, _messages)
# Steady, or why not. Messages in each fifth of a second of the measure phase, and the fifths that they take to arrive.
MILLI = SECOND // 1_000
FIFTH = SECOND // 5
_LEVEL = (1_000, 1_030, 990, 1_010, 970, 1_020, 1_000, 980, 1_010, 1_000)
_STEADINESS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, object]]] = {
    "steady": (_LEVEL, _LEVEL, {}),
    "too few arrive": (_LEVEL, tuple(count * 9 // 10 for count in _LEVEL), {}),
    "the backlog grows": (_LEVEL, tuple(count * 97 // 100 for count in _LEVEL), {}),
    "the rate falls": (tuple(1_200 - 20 * n for n in range(10)), tuple(1_200 - 20 * n for n in range(10)), {}),
    "a small trend": (tuple(1_000 + n for n in range(10)), tuple(1_000 + n for n in range(10)), {}),
    "fixed work": (_LEVEL, tuple(count // 2 for count in _LEVEL), {"messages": 10_000}),
    "one side": (_LEVEL, tuple(count // 2 for count in _LEVEL), {"load": "receive"}),
    "a slow consumer": (_LEVEL, tuple(count // 2 for count in _LEVEL), {"consume_rate": 10.0}),
}
for _name, (_sends, _arrivals, _changes) in _STEADINESS.items():
    _run = case(_name, declared={"producers": 1, "batch": 1, **_changes})
    for _fifth, (_sent, _arrived) in enumerate(zip(_sends, _arrivals, strict=True)):
        _at = MEASURE + _fifth * FIFTH
        for _part in range(10):
            _run.send(sum(_sends[:_fifth]) + _sent * _part // 10, _sent * (_part + 1) // 10 - _sent * _part // 10, _at)
            _first = sum(_arrivals[:_fifth]) + _arrived * _part // 10
            _run.receive(_first, _arrived * (_part + 1) // 10 - _arrived * _part // 10, at=_at + 1_000_000)
    if _late := sum(_sends) - sum(_arrivals):
        _run.receive(sum(_arrivals), _late, at=STOP + FIFTH)
_run = case("steady once 1", scenario="steady once", repetition=1, declared={"producers": 1})
for _part in range(10):
    _run.send(10 * _part, 10).receive(10 * _part, 10, at=MIDDLE if _part == 0 else STOP)
case("steady once 2", scenario="steady once", repetition=2, declared={"producers": 1}).send(0, 10).receive(0, 10)
for _name, _took in {"a short latency": 900 * MILLI, "a long latency": 1_050 * MILLI}.items():
    _run = case(_name, declared={"producers": 1, "batch": 1})
    for _seq in range(200):
        _at = BEGIN + _seq * 15 * MILLI
        _run.send(_seq, 1, _at).receive(_seq, 1, at=_at + _took)
case("disturbed and void", scenario="disturbed once", repetition=4, counted_sent=1, machine=_BUSY).send(0, 9).receive(
    0, 9
)


def _sampled(
    name: str,
    broker: float,
    agents: tuple[float, ...],
    share: float = 0.0,
    host: str = "",
    **values: Unpack[RunValues],
) -> None:
    """CPU in cores, over the one second between two samples of the measure phase; what lies outside must not count."""
    run = case(name, **values).send(0, 10).receive(0, 10)
    used = {"broker": broker} | {f"agent-{n}{host}": cpu for n, cpu in enumerate(agents, 1)}
    for source, cpu in used.items():
        sync = {"syncs": 250, "sync_seconds": share, "holds": 3, "held_seconds": 0.5} if source == "broker" else {}
        nothing = dict.fromkeys(sync, 0)
        run.sample(source, BEGIN, cpu_seconds=0.0, rss=9_000, **nothing)
        run.sample(source, MEASURE, cpu_seconds=5.0, rss=1_000, **nothing)
        run.sample(source, MIDDLE, cpu_seconds=5.0 + cpu, rss=3_000, **sync)
        run.sample(source, STOP, cpu_seconds=99.0, rss=9_000, **sync)


_sampled("idle", 0.2, (0.1, 0.3))
_sampled("bound by the disk", 0.2, (0.9, 0.1), share=0.6)
_sampled("bound by a client", 0.4, (0.3, 0.86))
_sampled("bound by the broker", 0.95, (0.2, 0.1))
_sampled("a full machine", 0.7, (0.5, 0.5))
_sampled("a full machine with a busy broker", 0.95, (0.9, 0.1))
# The lab's own work for ten messages in one call each way, as the calibrations of the folder say: just less (size 12)
# or just more (size 13) than a tenth of one core over the two seconds.
for _amount, _bytes in {"little": 12, "much": 13}.items():
    _free: dict[str, object] = {"send": "free", "transaction": 0, "size": _bytes, "producers": 1}
    _waiting = _free | {"send": "confirmed"}
    _sampled(f"{_amount} lab in a busy agent", 0.4, (0.2, 0.86), declared=_free)
    _sampled(f"{_amount} lab in idle agents", 0.4, (0.2, 0.2), declared=_free)
    _sampled(f"{_amount} lab beside a busy broker", 0.95, (0.2, 0.2), declared=_free)
    _sampled(f"{_amount} lab on a full machine", 0.7, (0.5, 0.5), declared=_free)
    _sampled(f"{_amount} lab between confirmations", 0.4, (0.2, 0.2), declared=_waiting)
    _sampled(f"{_amount} lab for two that wait", 0.4, (0.2, 0.2), declared=_waiting | {"producers": 2})
    _sampled(f"{_amount} lab by a schedule", 0.4, (0.2, 0.2), declared=_waiting | {"rate": 9.0})
# Agents on another machine.
_sampled("agents elsewhere, and no machine full", 0.7, (0.5, 0.5), host="@far")
_sampled("bound by a client elsewhere", 0.4, (0.3, 0.86), host="@far")
_sampled("much lab in a busy agent elsewhere", 0.4, (0.2, 0.86), host="@far", declared=_free)
# Two calls in one row.
_sampled("transactions of two batches", 0.4, (0.2, 0.2), declared=_free | {"size": 12, "transaction": 10, "batch": 5})
_sampled("two of three runs 1", 0.95, (0.1,), scenario="majority", repetition=0)
_sampled("two of three runs 2", 0.95, (0.1,), scenario="majority", repetition=1)
_sampled("two of three runs 3", 0.1, (0.95,), scenario="majority", repetition=2)
_sampled("one of two runs 1", 0.95, (0.1,), scenario="split", repetition=0)
_sampled("one of two runs 2", 0.1, (0.1,), scenario="split", repetition=1)

# A system elsewhere, of which nothing but the line to it is sampled.
for _name, _shares in {
    "bound by the network": {"network-in": 0.3, "network-out": 0.9, "agent-1": 0.0},
    "a line that is not full": {"network-in": 0.8, "network-out": 0.8},
    "elsewhere, with a busy disk here": {"network-in": 0.1, "disk": 0.9},
}.items():
    _there = case(_name).send(0, 10).receive(0, 10)
    for _source, _share in _shares.items():
        _there.sample(_source, MEASURE, sync_seconds=70.0).sample(_source, MIDDLE, sync_seconds=70.0 + _share)

_sampled("a client above its limit", 0.2, (0.76, 0.1), declared={"client_cpu": 75.0})
_sampled("clients below their limit", 0.2, (0.74, 0.1), declared={"client_cpu": 75.0})
_two = case("two brokers").send(0, 10).receive(0, 10)
for _source, _cpu in {"broker": 0.5, "broker-b": 0.25, "agent-2": 0.25}.items():
    _two.sample(_source, MEASURE, cpu_seconds=5.0, rss=1_000, holds=1, held_seconds=0.0, sync_seconds=0.0, syncs=0)
    _two.sample(
        _source, MIDDLE, cpu_seconds=5.0 + _cpu, rss=1_000, holds=3, held_seconds=0.5, sync_seconds=_cpu, syncs=10
    )

# Producers that are held back: the broker has run before, and held back others.
_held = case("held back").send(0, 10).receive(0, 10)
for _at, _holds, _depth in ((-300, 5, 0), (-100, 6, 1), (100, 6, 2), (300, 8, 70), (500, 9, 80), (1_200, 9, 90)):
    _held.sample(
        "broker", BEGIN + _at * MILLI, holds=_holds, held_seconds=_holds / 10, depth=_depth, blocked=int(_at == 300)
    )
case("not held back").send(0, 10).receive(0, 10).sample("broker", BEGIN - MILLI, holds=6).sample(
    "broker", BEGIN + MILLI, holds=6
)
case("never looked at before the load").send(0, 10).receive(0, 10).sample("broker", BEGIN + MILLI, holds=6).sample(
    "broker", MIDDLE, holds=7
)

# One side only, and a fixed amount of work.
case("only sends", consumers=(), declared={"load": "send"}).send(0, 10)
case("only sends, and nothing", consumers=(), declared={"load": "send"}).send(0, 9, planned=BEGIN)
case(
    "only receives",
    declared={"load": "receive"},
    phases=(("preload", BEGIN, MEASURE), ("measure", MEASURE, STOP), ("drain", STOP, STOP + SECOND)),
).send(0, 10, planned=BEGIN).receive(0, 4, at=MEASURE).receive(4, 6, at=STOP - 1)

# Round trips.
asking("round trips").ask(0, MIDDLE, 2 * MILLI).ask(1, MIDDLE + 3 * MILLI, 4 * MILLI).ask(2, MIDDLE + 8 * MILLI, 6_001)
asking("round trips at the edges").ask(0, MEASURE - MILLI, 5 * MILLI).ask(1, STOP - 1, 7 * MILLI).ask(
    2, STOP, MILLI
).ask(3, STOP + SECOND, MILLI)
asking("round trips, clocks apart", offsets={1: 40 * SECOND, 2: -7 * SECOND}).ask(0, MIDDLE - 40 * SECOND, 5 * MILLI)
asking("a reply is lost").ask(0, MIDDLE, MILLI).ask(1, MIDDLE, MILLI, lost="reply")
asking("a request is lost").ask(0, MIDDLE, MILLI).ask(1, MIDDLE, MILLI, lost="request")
asking("agents counted more round trips", counted_round_trips=1_001).ask(0, MIDDLE, MILLI)
RESPONSES = np.random.default_rng(2).lognormal(np.log(3e6), 1.0, 3_333).astype(np.int64)
_asked = asking("known responses", declared={"size": 100})
for _seq, _after in enumerate(RESPONSES.tolist()):
    _asked.ask(_seq, MEASURE + _seq * 500_000, _after)

for _requesters in (1, 2):
    asking(f"the lab between round trips of {_requesters}", declared={"send": "free", "requesters": _requesters}).ask(
        0, MIDDLE, MILLI
    ).sample("broker", MEASURE, cpu_seconds=0.0).sample("broker", MIDDLE, cpu_seconds=0.1)

# Points and systems beside each other: so many messages in each repetition.
COST = {"off": (1_000, 1_100, 1_300), "low": (600, 640, 820), "high": (500, 560)}
OTHER = {"off": (800, 1_000, 1_100), "low": (900, 901, 903)}
for _system, _points in (("embedded", COST), ("other", OTHER)):
    for _level, _counts in _points.items():
        _declared: dict[str, object] = {
            "base": None if _level == "off" else "trace=off",
            "parameters": {"trace": _level, "size": "1KiB"},
        }
        for _repetition, _messages in enumerate(_counts, 1):
            case(
                f"cost {_system} {_level} {_repetition}", scenario="cost", system=_system, point=f"trace={_level}",
                repetition=_repetition, declared=_declared,
            ).send(0, _messages).receive(0, _messages)  # fmt: skip
# Messages by size, clients and threads, on each of the two systems.
GRID = {
    ("1KiB", 1, 1): (100, 150), ("1KiB", 1, 2): (300, 110), ("1KiB", 2, 1): (200, 400), ("1KiB", 2, 2): (250, 90),
    ("2KiB", 1, 1): (50, 40), ("2KiB", 2, 2): (30, 60),
}  # fmt: skip
for (_size, _clients, _threads), _each in GRID.items():
    _swept = {"size": _size, "clients": str(_clients), "threads": str(_threads)}
    _name = ", ".join(f"{name}={value}" for name, value in _swept.items())
    _shown: dict[str, object] = {"parameters": _swept | {"persistent": "no", "requesters": str(_clients * _threads)}}
    for _system, _messages in zip(("embedded", "other"), _each, strict=True):
        for _repetition, _more in enumerate((0, 10)):
            case(
                f"grid {_system} {_name} {_repetition}", scenario="grid", system=_system, point=_name,
                repetition=_repetition, declared=_shown,
            ).send(0, _messages + _more).receive(0, _messages + _more)  # fmt: skip
EXHIBITS = (
    Exhibit("matrix", "no figures"),
    Exhibit("table", "T1", views=(MetricView("value", "rate.sent"), MetricView("faster", "rate.received"))),
    Exhibit("table", "T2", views=(MetricView("ratio", "latency.max"), MetricView("ratio", "rate.received"))),
    Exhibit("table", "T3", views=(MetricView("peak", "rate.received", over=("threads",)),)),
    Exhibit("lines", "F1", views=(MetricView("ratio", "rate.received", over=("clients", "threads")),)),
)

# What was traced; the clock is the system's own.
_traced = case("traced 1", scenario="traced", repetition=0).send(0, 1).receive(0, 1)
for _k in range(100):
    _traced.operate(f"Requester{_k % 3}", "put", _k * SECOND // 99, (_k + 1) * 1_000, bytes=10)
_traced.operate("Requester0", "get", 0, 5_000, messages=0, bytes=0, code="no message")
_traced.operate("reader", "get", SECOND, 5_000)
case("traced 2", scenario="traced", repetition=1).send(0, 1).receive(0, 1).operate(
    "Requester7", "put", 7 * SECOND, 200_000, bytes=10
).operate("Requester7", "put", 10 * SECOND, 300_000, bytes=20)
case("traced but void", scenario="traced", repetition=2, counted_sent=5).send(0, 1).receive(0, 1).operate(
    "Requester7", "put", 0, 999_000_000
)

# How messages travelled, by role: records, messages, frames and waits.
for _way, _records, _messages, _frames, _waits in (
    ("message by message", 400, 400, 50, 0),
    ("confirmed one by one", 400, 400, 400, 400),
    ("packed", 400, 4, 4, 4),
    ("frames unknown", 400, 400, None, 0),
):
    case(f"travel: {_way}").send(0, 400).receive(0, 400).moved(_records, _messages, _frames, _waits)
