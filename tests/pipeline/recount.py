"""The audit and all durations once more, message by message, in plain Python: nothing shared with the pipeline."""

import math
from collections import Counter, defaultdict

from pipeline.synthetic_runs import BEGIN, MEASURE, SECOND, STOP, Run
from table_rows import Row

# Destination, producer, subscription and number.
Message = tuple[int, int, int, int]
# Consumer, destination and producer.
Source = tuple[int, int, int]
# "latency" or "response", the number of the time slot and that of the bucket.
Slot = tuple[str, int, int]


def recount(run: Run) -> Row:
    sent, planned, left = _sent(run)
    got, arrived = _received(run)
    found: Row = dict.fromkeys(
        (
            "delivered", "lost", "resent", "duplicated", "duplicated_resent", "duplicated_marked", "recovered",
            "out_of_order", "unexpected",
        ),
        0,
    )  # fmt: skip
    times = _times_sent(run)
    latencies, early = [], False
    slots: Counter[Slot] = Counter()
    for message in sent.keys() | got.keys():
        outcomes, copies = sent.get(message, set()), got.get(message, [])
        fresh = [late for marked, late in copies if not marked]
        found["delivered"] += "confirmed" in outcomes and bool(copies)
        found["lost"] += "confirmed" in outcomes and not copies
        found["recovered"] += outcomes == {"unknown"} and bool(copies)
        found["unexpected"] += not outcomes
        found["resent"] += times[message] > 1
        if outcomes and len(copies) > 1:
            made = "duplicated_resent" if len(fresh) <= times[message] else "duplicated"
            found[made if len(fresh) > 1 else "duplicated_marked"] += 1
        found["out_of_order"] += bool(outcomes) and bool(fresh) and all(fresh)
        if outcomes and copies and MEASURE <= planned[message] < STOP:
            latencies.append(max(0, arrived[message] - planned[message]))
        if outcomes and copies and BEGIN <= planned[message] < STOP:
            slots[_slot("latency", planned[message], arrived[message])] += 1
        early |= bool(outcomes and copies) and arrived[message] + 2 * run.clock_error < left[message]
    faults = found["lost"] + found["duplicated"] + found["out_of_order"] + found["unexpected"]
    found["status"] = "failed" if faults else "clean"
    if early or _has_gap(run) or run.measured(run.receipts, "t_received") == 0:
        found["status"] = "void"
    found["latencies"] = sorted(latencies)
    found["received"] = run.measured(run.receipts, "t_received")
    found["arrived"], found["responses"] = _round_trips(run)
    found["slots"] = slots + _response_slots(run)
    return found


def percentile(latencies: list[int], per_mille: int) -> float:
    return latencies[math.ceil(len(latencies) * per_mille / 1000) - 1] / 1e9


def _round_trips(run: Run) -> tuple[int, list[int]]:
    """How many replies came in the measure phase, and how long those planned in it took, from the least."""
    arrived, responses = 0, []
    for row in run.round_trips:
        if row["t_received"] is None:
            continue
        clock = run.offsets[row["agent"]]
        arrived += MEASURE <= row["t_received"] + clock < STOP
        if MEASURE <= row["t_planned"] + clock < STOP:
            responses.append(row["t_received"] - row["t_planned"])
    return arrived, sorted(responses)


def _response_slots(run: Run) -> Counter[Slot]:
    slots: Counter[Slot] = Counter()
    for row in run.round_trips:
        planned = row["t_planned"] + run.offsets[row["agent"]]
        if row["t_received"] is not None and BEGIN <= planned < STOP:
            slots[_slot("response", planned, row["t_received"] + run.offsets[row["agent"]])] += 1
    return slots


def _slot(kind: str, planned: int, received: int) -> Slot:
    """The fifth of a second, and which power of 1.0019 ** 152 the latency does not exceed."""
    exponent = math.log(max(1, received - planned)) / math.log(1.0019)
    return kind, (planned - BEGIN) // (SECOND // 5), math.ceil(math.ceil(exponent) / 152)


def _has_gap(run: Run) -> bool:
    """Whether a producer has no row for a number below its highest."""
    next_seq: dict[tuple[int, int], int] = defaultdict(int)
    for row in sorted(run.sends, key=lambda row: row["first_seq"]):
        sequence = row["destination"], row["producer"]
        if row["first_seq"] > next_seq[sequence]:
            return True
        next_seq[sequence] = max(next_seq[sequence], row["first_seq"] + row["count"])
    return False


def _times_sent(run: Run) -> Counter[Message]:
    times: Counter[Message] = Counter()
    for row in run.sends:
        if row["outcome"] in ("confirmed", "unknown"):
            for seq in range(row["first_seq"], row["first_seq"] + row["count"]):
                times.update(
                    (row["destination"], row["producer"], subscription, seq) for subscription in {*run.consumers}
                )
    return times


def _sent(run: Run) -> tuple[dict[Message, set[str]], dict[Message, int], dict[Message, int]]:
    """Of every message its outcomes, and when it was first planned and sent."""
    outcomes: dict[Message, set[str]] = defaultdict(set)
    planned: dict[Message, int] = {}
    left: dict[Message, int] = {}
    for row in run.sends:
        if row["outcome"] not in ("confirmed", "unknown"):
            continue
        for subscription in set(run.consumers):
            for seq in range(row["first_seq"], row["first_seq"] + row["count"]):
                message = (row["destination"], row["producer"], subscription, seq)
                outcomes[message].add(row["outcome"])
                when = row["t_planned"] + run.offsets[row["agent"]]
                planned[message] = min(when, planned.get(message, when))
                when = row["t_sent"] + run.offsets[row["agent"]]
                left[message] = min(when, left.get(message, when))
    return outcomes, planned, left


def _received(run: Run) -> tuple[dict[Message, list[tuple[bool, bool]]], dict[Message, int]]:
    """Every copy as (marked, late)."""
    copies: dict[Message, list[tuple[bool, bool]]] = defaultdict(list)
    arrived: dict[Message, int] = {}
    highest: dict[Source, int] = {}
    for row in sorted(run.receipts, key=lambda row: (row["consumer"], row["ordinal"])):
        source = (row["consumer"], row["destination"], row["producer"])
        for seq in range(row["first_seq"], row["first_seq"] + row["count"]):
            message = (row["destination"], row["producer"], run.consumers[row["consumer"]], seq)
            copies[message].append((row["redelivered"], seq < highest.get(source, seq)))
            highest[source] = max(seq, highest.get(source, seq))
            when = row["t_received"] + run.offsets[row["agent"]]
            arrived[message] = min(when, arrived.get(message, when))
    return copies, arrived
