"""The schema of every measure table, once: a class for its row, whose fields are the columns with their types.

The pipeline selects and writes these columns, the reports read rows as these classes. Times are in seconds, a `ci95`
is the half width of a 95 % interval, and None stands for what is not known.
"""

import math
from dataclasses import dataclass, fields
from types import NoneType
from typing import Annotated, Final, get_args, get_type_hints

import pyarrow as pa

from mqlab.pipeline.kernels.count_keys import DELIVERY_CLASSES as DELIVERY_CLASSES
from mqlab.study.metric import fewest_observations, is_throughput

# The `status` of an audit.
CLEAN: Final = "clean"
FAILED: Final = "failed"  # a message was lost, duplicated without its mark, out of order or unexpected
# The events cannot be trusted (a damaged file, a gap, other counts than the agents'), or the bodies are not those sent.
VOID: Final = "void"
INCOMPLETE: Final = "incomplete"  # the run, or an agent of it, did not come to its end

# The classes that fail a run. Duplicates that are marked or that their producer made, and recovered messages, are
# allowed.
FAULTS: Final = ("lost", "duplicated", "out_of_order", "unexpected")

# The bottleneck of a run is the lab's own work: the system can do at least as much.
LAB: Final = "lab"
# The run ended before the system served again: an outage is at least that long.
UNSERVED: Final = "end of the run"
# All processors were busy with the system and its clients: the figure is that of the machine.
MACHINE_FULL: Final = "machine full"
# A process that uses this much of a core is at its limit: the rest is scheduling and waiting between batches.
BUSY_PERCENT: Final = 85.0
BOTTLENECKS: Final = ("network", "disk", LAB, MACHINE_FULL, "client", "broker")

Int32 = Annotated[int, "int32"]
_ARROW_TYPES: Final[dict[object, pa.DataType]] = {
    Int32: pa.int32(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    str: pa.string(),
}


@dataclass(frozen=True)
class PointColumns:
    scenario: str
    point: str
    system: str


@dataclass(frozen=True)
class RunColumns:
    run: Int32
    scenario: str
    point: str
    system: str
    repetition: Int32


@dataclass(frozen=True)
class AuditRow(RunColumns):
    """The delivery audit of a run, clean or not."""

    sent: int | None
    expected: int | None  # confirmed messages, once for each subscription
    delivered: int | None  # confirmed, and received at least once
    lost: int | None  # confirmed, never received
    resent: int | None  # sent more than once: no confirmation had come
    duplicated: int | None  # received without the redelivered mark more often than it was sent
    duplicated_resent: int | None  # received without the mark more than once, and at most as often as it was sent
    duplicated_marked: int | None  # received more than once, every extra copy with the mark
    recovered: int | None  # not confirmed to its producer, yet received
    out_of_order: int | None  # each unmarked copy came to a consumer that already had a later message
    unexpected: int | None  # received, though never sent there, refused, or rolled back
    status: str
    reason: str | None


@dataclass(frozen=True)
class NoiseRow(RunColumns):
    """Whether a run counts for figures, and the other work of the machine: None where the lab did not watch it."""

    valid: bool  # whether its audit is clean
    disturbed: str  # why other work of the machine disturbed the run; "" if it did not
    unsteady: str  # why its rate is not that of a steady state; "" if it is, or is not judged
    used: bool  # whether it counts for figures
    steal: float | None  # share of the processors that the host gave to other virtual machines
    foreign: float | None  # share of the processors that processes took which are not the lab's
    foreign_name: str  # the one that took most
    cpu_wait: float | None  # share of the time in which a process waited for a processor
    memory_wait: float | None  # for memory
    disk_wait: float | None  # for the disk
    clock_hz: float | None

    @property
    def flagged(self) -> str:
        """Why the run decides no verdict; "" if it does."""
        return "; ".join(filter(None, (self.disturbed, self.unsteady)))


@dataclass(frozen=True)
class RunMeasureRow(RunColumns):
    """A metric of a used run: valid and, where the point has such runs, not flagged."""

    metric: str
    value: float
    unit: str
    observations: int | None  # independent ones, of a duration


@dataclass(frozen=True)
class MeasureRow:
    """A metric of a point on a system: the mean over its used runs."""

    study: str
    scenario: str
    point: str
    system: str
    metric: str
    value: float
    unit: str
    ci95: float | None
    runs: Int32  # that have a value
    degrees_of_freedom: Int32 | None  # of its interval: of its own runs, and as far as they agree of all points' runs
    bound_by: str | None  # what was at its limit in most of the runs: one of BOTTLENECKS; of an outage also UNSERVED
    attempted: Int32  # runs
    void: Int32  # runs that are not clean
    flagged: Int32 | None  # clean runs that are disturbed or not steady
    quiet: bool | None  # whether no used run is flagged: only then does the measure decide a verdict
    client_cpu: bool | None  # whether an agent used more CPU than the point allows
    observations: int | None  # independent ones in all used runs, of a duration

    @property
    def is_thin(self) -> bool:
        """Whether it is a percentile with too few independent observations beyond it. It is not shown."""
        return self.observations is not None and self.observations < fewest_observations(self.metric)

    @property
    def lower_bound(self) -> bool:
        return is_lower_bound(self.metric, self.bound_by)


@dataclass(frozen=True)
class SeriesRow(RunColumns):
    """Messages in a second of a used run."""

    second: Int32  # since the start of the load
    sent: float | None
    received: float | None
    phase: str
    depth: float | None  # messages in all brokers at the last sample of the second


@dataclass(frozen=True)
class PaceRow(RunColumns):
    """Messages a second, within a fifth of a second of a used run."""

    seconds: float  # from the start of the load to the beginning of the fifth
    sent: float
    received: float
    phase: str


@dataclass(frozen=True)
class DepthRow(RunColumns):
    """One sample of a broker in a used run."""

    source: str  # the broker
    seconds: float  # since the start of the load
    depth: int | None  # messages in the broker
    blocked: int | None  # producers held back at this moment
    holds: int | None  # how often producers were held back since the start of the load
    held_seconds: float | None  # for how long, all producers together


@dataclass(frozen=True)
class FaultEffectRow(RunColumns):
    """The effect of a fault on the messages of a complete run, whatever its audit found."""

    number: Int32  # of the fault in the run
    kind: str
    fault: str  # as the study writes it
    started: float  # since the start of the load
    lasted: float | None  # until the lab had undone it
    served: bool | None  # whether a message arrived once more; if not, the outage is a lower bound
    outage: float | None  # the longest time without an arrival; without a next one, until the end of the drain phase
    recovery: float | None  # from its start until the system served again and its backlog was as before
    messages: int | None  # that were on their way between its start and the recovery; their latency from the plan:
    latency_p50: float | None
    latency_p99: float | None
    latency_max: float | None


@dataclass(frozen=True)
class LatencyRow(PointColumns):
    """A bucket of the histogram of latencies (or response times) over the used runs of a point."""

    latency: float  # the bucket's upper edge
    count: int


@dataclass(frozen=True)
class LatencySlotRow(RunColumns):
    """The messages of a used run that were planned in a slot of time and had a latency of a bucket."""

    kind: str  # "latency", or "response" of requests
    seconds: float  # from the start of the load to the beginning of the slot
    length: float  # of the slot
    latency: float  # the bucket's upper edge
    count: int


@dataclass(frozen=True)
class OperationSummaryRow(PointColumns):
    """The operations of the applications of one kind, as the system traced them, over the used runs of a point."""

    application: str
    operation: str
    count: int
    rate: float | None  # operations a second
    mean: float | None
    p50: float | None
    p90: float | None
    p99: float | None
    max: float | None
    messages: int | None
    bytes: int | None
    failed: int | None


@dataclass(frozen=True)
class ImpactRow(PointColumns):
    """The change of a metric against the point that differs in one setting alone."""

    metric: str
    base: str  # the name of that point
    value: float  # percent, negative where the metric is less than the base's
    low: float | None
    high: float | None
    ci95: float | None
    paired: bool  # whether each repetition gave one ratio
    runs: Int32
    degrees_of_freedom: Int32 | None


@dataclass(frozen=True)
class PeakRow:
    """The greatest value of a metric over swept parameters, for each combination of the others."""

    scenario: str
    system: str
    metric: str
    over: str  # the swept parameters
    parameters: str  # the combination of the others, as JSON
    value: float
    unit: str
    ci95: float | None
    runs: Int32
    bound_by: str | None
    at: str  # the values of the swept parameters at the peak
    point: str


@dataclass(frozen=True)
class ComparisonRow:
    """The first system's value over the second's, at a point or between their peaks."""

    scenario: str
    point: str  # "" between peaks
    over: str  # of the peaks; "" at a point
    parameters: str
    first: str
    second: str
    metric: str
    ratio: float
    low: float | None
    high: float | None
    ci95: float | None
    faster: str  # the system with the better value
    percent_faster: float
    percent_low: float | None
    percent_high: float | None
    paired: bool
    runs: Int32


@dataclass(frozen=True)
class MeasureTable:
    """`order` are the columns that the rows are sorted by: the same events give the same files."""

    row: type
    order: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        hints = get_type_hints(self.row, include_extras=True)
        return pa.schema([(name, _arrow_type(hints[name])) for name in columns(self.row)])


_POINT: Final = ("scenario", "point", "system")
TABLES: Final = {
    "audits": MeasureTable(AuditRow, ("run",)),
    "noise": MeasureTable(NoiseRow, ("run",)),
    "run_measures": MeasureTable(RunMeasureRow, ("run", "metric")),
    "measures": MeasureTable(MeasureRow, ("study", *_POINT, "metric")),
    "series": MeasureTable(SeriesRow, ("run", "second")),
    "paces": MeasureTable(PaceRow, ("run", "seconds")),
    "depths": MeasureTable(DepthRow, ("run", "source", "seconds")),
    "faults": MeasureTable(FaultEffectRow, ("run", "number")),
    "latencies": MeasureTable(LatencyRow, (*_POINT, "latency")),
    "responses": MeasureTable(LatencyRow, (*_POINT, "latency")),
    "latency_slots": MeasureTable(LatencySlotRow, ("run", "kind", "seconds", "latency")),
    "operations": MeasureTable(OperationSummaryRow, (*_POINT, "application", "operation")),
    "impacts": MeasureTable(ImpactRow, (*_POINT, "metric")),
    "peaks": MeasureTable(PeakRow, ("scenario", "system", "metric", "over", "parameters")),
    "comparisons": MeasureTable(
        ComparisonRow, ("scenario", "point", "over", "parameters", "first", "second", "metric")
    ),
}


def columns(row: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(row))


def is_lower_bound(metric: str, bound_by: str | None) -> bool:
    """Whether the value may be greater: the lab's own work was the bottleneck, or the run ended before an outage."""
    return bound_by == UNSERVED or (bound_by == LAB and is_throughput(metric))


def most_without_lab(cpu_lab: float) -> float:
    """By which factor, at most, a rate that the lab bounded would rise without the lab's work (`cpu_lab`: `cpu.lab`).

    The core that was short was busy for BUSY_PERCENT of the time or more. The rest of that, without the lab's share, is
    the work of the system for these messages, which could fill the whole core.
    """
    return 100 / (BUSY_PERCENT - cpu_lab) if cpu_lab < BUSY_PERCENT else math.inf


def _arrow_type(hint: object) -> pa.DataType:
    return _ARROW_TYPES.get(hint) or next(_ARROW_TYPES[part] for part in get_args(hint) if part is not NoneType)
