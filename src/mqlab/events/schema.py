"""The event tables: every column once, with its type, its unit and its meaning.

The Arrow schemas (`TABLES`), the recorder's functions that take a row, and docs/events.md are derived from the row
classes below. Times are those of the writer's monotonic clock; an agent's time plus `clocks.offset` is the conductor's.
"""

from dataclasses import dataclass, fields
from typing import Annotated, ClassVar, Final, NamedTuple, get_type_hints

import pyarrow as pa

SCHEMA_VERSION: Final = 4

# The outcome of a send, as its producer knows it.
CONFIRMED: Final = "confirmed"  # the system confirmed the messages
UNKNOWN: Final = "unknown"  # no confirmation came: the messages may or may not arrive
FAILED: Final = "failed"  # the system refused the messages: they must not arrive
ROLLED_BACK: Final = "rolled back"  # the transaction was rolled back: the messages must not arrive
OUTCOMES: Final = (CONFIRMED, UNKNOWN, FAILED, ROLLED_BACK)

# The phases of a run, in their order. Only events of MEASURE count for rates. A run has PRELOAD if its queues are
# filled first, and WARM_UP if it lasts a fixed time: a fixed number of messages is measured from the first one on.
PRELOAD: Final = "preload"
WARM_UP: Final = "warm-up"
MEASURE: Final = "measure"
DRAIN: Final = "drain"

COMPLETE: Final = "complete"
INCOMPLETE: Final = "incomplete"
# Never written: the pipeline gives this status to a run with a damaged event file.
DAMAGED: Final = "damaged"


class _Storage(NamedTuple):
    type: pa.DataType
    unit: str = ""
    nullable: bool = False


Int32 = Annotated[int, _Storage(pa.int32())]
Int64 = Annotated[int, _Storage(pa.int64())]
Text = Annotated[str, _Storage(pa.string())]
Flag = Annotated[int, _Storage(pa.bool_())]
Bytes = Annotated[int, _Storage(pa.int64(), "bytes")]
Seconds = Annotated[float, _Storage(pa.float64(), "s")]
Time = Annotated[int, _Storage(pa.int64(), "ns")]
# The recorder writes null for NO_TIME.
TimeOrNone = Annotated[int, _Storage(pa.int64(), "ns", nullable=True)]
OutcomeCode = Annotated[int, _Storage(pa.dictionary(pa.int8(), pa.string()))]
# Of rows that the recorder does not write.
TimeOrNull = Annotated[int | None, _Storage(pa.int64(), "ns", nullable=True)]
Int64OrNone = Annotated[int | None, _Storage(pa.int64(), nullable=True)]
Int32OrNone = Annotated[int | None, _Storage(pa.int32(), nullable=True)]
BytesOrNone = Annotated[int | None, _Storage(pa.int64(), "bytes", nullable=True)]
SecondsOrNone = Annotated[float | None, _Storage(pa.float64(), "s", nullable=True)]
FrequencyOrNone = Annotated[float | None, _Storage(pa.float64(), "Hz", nullable=True)]


class EventRow:
    """A row of one table. The writer adds the `common` columns."""

    table: ClassVar[str]
    common: ClassVar[tuple[str, ...]] = ("run",)


@dataclass(frozen=True, kw_only=True)
class RunRow(EventRow):
    """One repetition of a point on a system."""

    table = "runs"
    study: Annotated[Text, "id of the study"]
    scenario: Annotated[Text, "name of the scenario"]
    point: Annotated[Text, "name of the point"]
    system: Annotated[Text, "label of the system"]
    repetition: Annotated[Int32, "1 for the first run of the point on the system"]
    parameters: Annotated[Text, "the whole point, as JSON"]
    status: Annotated[Text, "complete or incomplete"]
    reason: Annotated[Text, "why the run is incomplete; empty if it is complete"]
    counted_sent: Annotated[Int64, "messages sent in the measure phase, by the agents' own counters"]
    counted_received: Annotated[Int64, "messages received in the measure phase, by the agents' own counters"]
    counted_round_trips: Annotated[Int64, "round trips completed in the measure phase, by the agents' own counters"]
    events_of: Annotated[
        Int32OrNone, "the run whose events it shares, since the lab switched settings within it; null if it has its own"
    ] = None


@dataclass(frozen=True, kw_only=True)
class RoleRow(EventRow):
    """A producer or a consumer of the run.

    A requester is a producer of requests and a consumer of replies, a responder a consumer of
    requests and a producer of replies: two rows each. Of pair k of queues, requests go to
    destination 2k and replies to 2k + 1.
    """

    table = "roles"
    agent: Annotated[Int32, "number of the agent that plays it"]
    role: Annotated[Text, "producer or consumer"]
    number: Annotated[Int32, "number of the role in the run"]
    destination: Annotated[Int32, "number of its destination"]
    subscription: Annotated[
        Int32,
        "each subscription of a destination must get each message once: 0 for all consumers of a queue, a number of "
        "its own for each consumer of a topic",
    ]


@dataclass(frozen=True, kw_only=True)
class SendRow(EventRow):
    """Consecutive messages of one producer that it sent together."""

    table = "sends"
    common = ("run", "agent")
    producer: Annotated[Int32, "number of the producer"]
    destination: Annotated[Int32, "number of the destination"]
    first_seq: Annotated[Int64, "sequence number of the first message"]
    count: Annotated[Int64, "number of messages"]
    bytes: Annotated[Bytes, "size of all bodies together"]
    t_planned: Annotated[Time, "when the schedule wanted the send; without a schedule, when the producer was ready"]
    t_sent: Annotated[Time, "when the producer called its driver"]
    t_confirmed: Annotated[TimeOrNone, "when the confirmation came; null if the producer did not wait for one"]
    outcome: Annotated[OutcomeCode, "confirmed, unknown, failed or rolled back"]


@dataclass(frozen=True, kw_only=True)
class ReceiptRow(EventRow):
    """Consecutive messages of one producer that one consumer received together."""

    table = "receipts"
    common = ("run", "agent")
    consumer: Annotated[Int32, "number of the consumer"]
    destination: Annotated[Int32, "number of the destination"]
    producer: Annotated[Int32, "number of the producer, from the body"]
    first_seq: Annotated[Int64, "sequence number of the first message, from the body"]
    count: Annotated[Int64, "number of messages"]
    bytes: Annotated[Bytes, "size of all bodies together"]
    damaged: Annotated[Int64, "number of those whose body has another length or another filler than was sent"]
    ordinal: Annotated[Int64, "position of the row among those of its consumer"]
    t_received: Annotated[Time, "when the driver returned the messages"]
    redelivered: Annotated[Flag, "whether the system marked them as redelivered"]
    t_acknowledged: Annotated[TimeOrNone, "when the commit returned; null outside of transactions"]


@dataclass(frozen=True, kw_only=True)
class RoundTripRow(EventRow):
    """One request and its reply."""

    table = "round_trips"
    common = ("run", "agent")
    requester: Annotated[Int32, "number of the requester"]
    seq: Annotated[Int64, "sequence number of the request"]
    t_planned: Annotated[Time, "when the schedule wanted the request; without one, when the requester was ready"]
    t_sent: Annotated[Time, "when the requester called its driver"]
    t_received: Annotated[TimeOrNone, "when the reply came; null if none came"]
    mismatched: Annotated[Flag, "whether the reply carried the id of another request"]


@dataclass(frozen=True, kw_only=True)
class OperationRow(EventRow):
    """One operation of an application, from the activity trace of the system."""

    table = "operations"
    application: Annotated[Text, "name of the application"]
    connection: Annotated[Int64, "number of its connection"]
    operation: Annotated[Text, "name of the operation"]
    t: Annotated[Time, "when it began, by the clock of the system"]
    duration: Annotated[Time, "how long it took"]
    destination: Annotated[Text, "name of the destination"]
    messages: Annotated[Int64, "number of messages"]
    bytes: Annotated[Bytes, "size of all bodies together"]
    code: Annotated[Text, "the result, as the system names it"]


@dataclass(frozen=True, kw_only=True)
class SampleRow(EventRow):
    """The resources of one process at one moment. All columns but t, rss, depth and blocked are counters."""

    table = "samples"
    source: Annotated[
        Text, "the process: broker, agent-1 (on another machine agent-1@HOST), ...; or disk, network-in, ..."
    ]
    t: Annotated[Time, "when the sample was taken"]
    cpu_seconds: Annotated[Seconds, "CPU time"]
    rss: Annotated[Bytes, "resident memory"]
    syncs: Annotated[Int64OrNone, "syncs of the journal"] = None
    sync_seconds: Annotated[SecondsOrNone, "time in syncs; of the disk and the network, the time they were busy"] = None
    bytes_read: Annotated[BytesOrNone, "read from the disk or received from the network"] = None
    bytes_written: Annotated[BytesOrNone, "written to the disk or sent to the network"] = None
    depth: Annotated[Int64OrNone, "messages on all queues"] = None
    blocked: Annotated[Int64OrNone, "producers that flow control blocks at this moment"] = None
    holds: Annotated[Int64OrNone, "how often flow control blocked a producer, also between two samples"] = None
    held_seconds: Annotated[SecondsOrNone, "time that producers were blocked"] = None


@dataclass(frozen=True, kw_only=True)
class TravelRow(EventRow):
    """How the messages of one role travelled over the whole run, as its agent and its driver counted them.

    A record is a message of the lab, with a sequence number of its own. A message has one record
    unless messages are packed.
    """

    table = "travel"
    common = ("run", "agent")
    role: Annotated[Text, "producer, consumer, requester or responder"]
    number: Annotated[Int32, "number of the role in the run"]
    sent_records: Annotated[Int64, "records that it sent"]
    sent_messages: Annotated[Int64, "messages that it sent: calls of the plain API, or packed messages"]
    sent_frames: Annotated[Int64OrNone, "frames that carried them; null if the client library does not tell"]
    waits: Annotated[Int64, "how often it waited for the confirmation of what it had sent"]
    received_records: Annotated[Int64, "records that it received"]
    received_messages: Annotated[Int64, "messages that it received"]
    received_frames: Annotated[Int64OrNone, "frames that carried them; null if the client library does not tell"]


@dataclass(frozen=True, kw_only=True)
class PhaseRow(EventRow):
    """A phase of the run."""

    table = "phases"
    phase: Annotated[Text, "preload, warm-up, measure or drain"]
    t_start: Annotated[Time, "its first moment"]
    t_end: Annotated[Time, "the first moment after it"]


@dataclass(frozen=True, kw_only=True)
class FaultRow(EventRow):
    """A fault that the lab brought about in the run."""

    table = "faults"
    number: Annotated[Int32, "1 for the first fault of the run"]
    kind: Annotated[Text, "kill, restart, stop, cut, reset, slow or lossy"]
    fault: Annotated[Text, "the fault, as the study writes it"]
    t_planned: Annotated[Time, "when the study wanted it"]
    t_start: Annotated[Time, "when the lab began it"]
    t_end: Annotated[TimeOrNull, "when it was undone: the system answers, the line is whole; null if it was not"]


@dataclass(frozen=True, kw_only=True)
class SwitchRow(EventRow):
    """A slice of a run between whose settings the lab switched. It ends when the next one is asked for."""

    table = "switches"
    number: Annotated[Int32, "1 for the first slice of the run"]
    setting_run: Annotated[Int32, "the run that has the settings of this slice: it shares the events of `run`"]
    t_asked: Annotated[Time, "when the lab asked the system for the settings"]
    t_confirmed: Annotated[Time, "when the system had confirmed them"]
    t_counted: Annotated[Time, "the first moment that counts for the settings"]


@dataclass(frozen=True, kw_only=True)
class ClockRow(EventRow):
    """The clock of an agent."""

    table = "clocks"
    agent: Annotated[Int32, "number of the agent"]
    offset: Annotated[Time, "an agent's time plus this is the conductor's time"]
    error: Annotated[Time, "the true offset is at most this far from `offset`"]


@dataclass(frozen=True, kw_only=True)
class MachineRow(EventRow):
    """The work of the machine in a run, from the start of its load to the end of its sends."""

    table = "machine"
    seconds: Annotated[Seconds, "how long that was"]
    cores: Annotated[Int32, "number of processors"]
    steal_seconds: Annotated[Seconds, "processor time that the host gave to other virtual machines"]
    foreign_seconds: Annotated[SecondsOrNone, "CPU time of processes that are not the lab's; null if not known"] = None
    foreign_name: Annotated[Text, "the one that used most of it"] = ""
    foreign_disk_seconds: Annotated[
        SecondsOrNone, "time in which the disk worked for them, by their share of the bytes; null if not known"
    ] = None
    cpu_wait_seconds: Annotated[SecondsOrNone, "time in which some process waited for a processor"] = None
    memory_wait_seconds: Annotated[SecondsOrNone, "time in which some process waited for memory"] = None
    disk_wait_seconds: Annotated[SecondsOrNone, "time in which some process waited for the disk"] = None
    clock_hz: Annotated[FrequencyOrNone, "mean clock frequency of the processors at the end"] = None
    disturbed: Annotated[Text, "why the run is not used: other work took processors or the disk; empty if not"] = ""


class EventColumn(NamedTuple):
    """One column of an event table."""

    name: str
    type: pa.DataType
    unit: str
    nullable: bool
    meaning: str


_COMMON: Final = {
    "run": EventColumn("run", pa.int32(), "", False, "number of the run in its run folder"),
    "agent": EventColumn("agent", pa.int32(), "", False, "number of the agent that recorded it"),
}
ROWS: Final[dict[str, type[EventRow]]] = {
    row.table: row
    for row in (
        RunRow, RoleRow, SendRow, ReceiptRow, RoundTripRow, OperationRow, SampleRow, PhaseRow, FaultRow, SwitchRow,
        ClockRow, MachineRow, TravelRow,
    )
}  # fmt: skip


def columns(row: type[EventRow]) -> list[EventColumn]:
    """All columns of the row's table, in their order."""
    hints = get_type_hints(row, include_extras=True)
    own = []
    for field in fields(row):  # type: ignore[arg-type]  # every subclass is a dataclass
        storage, meaning = hints[field.name].__metadata__
        own.append(EventColumn(field.name, storage.type, storage.unit, storage.nullable, meaning))
    return [*(_COMMON[name] for name in row.common), *own]


TABLES: Final[dict[str, pa.Schema]] = {
    name: pa.schema([pa.field(column.name, column.type, nullable=column.nullable) for column in columns(row)])
    for name, row in ROWS.items()
}
