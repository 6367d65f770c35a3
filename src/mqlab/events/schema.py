"""The events: one Arrow schema a table. Times are nanoseconds; on one clock once `clocks.offset` is added."""

from typing import Final

import pyarrow as pa

SCHEMA_VERSION: Final = 3

# What became of a send, as its producer knows it.
CONFIRMED: Final = "confirmed"  # the system said it has the messages
UNKNOWN: Final = "unknown"  # no answer came: they may or may not arrive
FAILED: Final = "failed"  # the system refused them: they must not arrive
ROLLED_BACK: Final = "rolled back"  # the transaction was undone: they must not arrive
OUTCOMES: Final = (CONFIRMED, UNKNOWN, FAILED, ROLLED_BACK)

# The phases of a run, in their order. Only what happens in MEASURE counts for rates. PRELOAD is there where queues are
# filled first, WARM_UP where the run goes by time: a fixed amount of work is measured from its first message on.
PRELOAD: Final = "preload"
WARM_UP: Final = "warm-up"
MEASURE: Final = "measure"
DRAIN: Final = "drain"
PHASES: Final = (PRELOAD, WARM_UP, MEASURE, DRAIN)

COMPLETE: Final = "complete"
INCOMPLETE: Final = "incomplete"
# Never written: a run of which an event file is damaged, as the pipeline finds it.
DAMAGED: Final = "damaged"

_int, _short, _text = pa.int64(), pa.int32(), pa.string()


def _table(optional: str = "", **columns: pa.DataType) -> pa.Schema:
    nullable = optional.split()
    return pa.schema([pa.field(name, kind, nullable=name in nullable) for name, kind in columns.items()])


TABLES: Final[dict[str, pa.Schema]] = {
    # One repetition of a point on a system. `counted_*` are the agents' own counts over the measure phase.
    "runs": _table(
        run=_short,
        study=_text,
        scenario=_text,
        point=_text,
        system=_text,
        repetition=_short,
        parameters=_text,
        status=_text,
        reason=_text,
        counted_sent=_int,
        counted_received=_int,
        counted_round_trips=_int,
    ),
    # Who took part. A requester is a producer of requests and a consumer of replies, a responder the other way round:
    # two rows each; of pair k of queues, requests go to destination 2k and replies to 2k + 1.
    # Every subscription of a destination must get each of its messages once: on a queue all consumers share
    # subscription 0, on a topic each consumer has its own.
    "roles": _table(
        run=_short,
        agent=_short,
        role=_text,
        number=_short,
        destination=_short,
        subscription=_short,
    ),
    # Consecutive messages of one producer that left together.
    "sends": _table(
        run=_short,
        agent=_short,
        producer=_short,
        destination=_short,
        first_seq=_int,
        count=_int,
        bytes=_int,
        t_planned=_int,
        t_sent=_int,
        t_confirmed=_int,
        outcome=pa.dictionary(pa.int8(), _text),
        optional="t_confirmed",
    ),
    # Consecutive messages of one producer that one consumer got together; `ordinal` counts a consumer's rows.
    "receipts": _table(
        run=_short,
        agent=_short,
        consumer=_short,
        destination=_short,
        producer=_short,
        first_seq=_int,
        count=_int,
        bytes=_int,
        ordinal=_int,
        t_received=_int,
        redelivered=pa.bool_(),
        t_acknowledged=_int,
        optional="t_acknowledged",
    ),
    # One request and its reply; without t_received none came.
    "round_trips": _table(
        run=_short,
        agent=_short,
        requester=_short,
        seq=_int,
        t_planned=_int,
        t_sent=_int,
        t_received=_int,
        optional="t_received",
    ),
    # One operation of an application, as the system traced it; the times are the system's own.
    "operations": _table(
        run=_short,
        application=_text,
        connection=_int,
        operation=_text,
        t=_int,
        duration=_int,
        destination=_text,
        messages=_int,
        bytes=_int,
        code=_text,
    ),
    # One look at one process (source "broker", "agent-1", ...). All but t, rss, depth and blocked count up. `blocked`
    # are the producers held back just then; `holds` counts the episodes, so that none between two looks is missed.
    "samples": _table(
        run=_short,
        source=_text,
        t=_int,
        cpu_seconds=pa.float64(),
        rss=_int,
        syncs=_int,
        sync_seconds=pa.float64(),
        bytes_read=_int,
        bytes_written=_int,
        depth=_int,
        blocked=_int,
        holds=_int,
        held_seconds=pa.float64(),
        optional="syncs sync_seconds bytes_read bytes_written depth blocked holds held_seconds",
    ),
    "phases": _table(run=_short, phase=_text, t_start=_int, t_end=_int),
    # Add `offset` to an agent's times to have the controller's; the truth is within `error` of it.
    "clocks": _table(run=_short, agent=_short, offset=_int, error=_int),
}
