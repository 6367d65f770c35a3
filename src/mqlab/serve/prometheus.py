"""The metrics of the runs in progress, in the format of Prometheus."""

from typing import Final

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from mqlab.serve.ended_runs import EndedRuns
from mqlab.serve.live import live_state
from mqlab.serve.runs import RunList

_LABELS: Final = ("run", "study")
# By their keys in the live state.
_OF_LAB: Final = {
    "runs_done": "finished runs", "runs_expected": "runs up to the next look", "rate": "rate of the last run, 1/s",
    "seconds_left": "seconds until the runs end", "incomplete": "finished runs without complete records",
    "disturbed": "finished runs that other work disturbed",
}  # fmt: skip
_OF_SOURCE: Final = {
    "cpu": ("cpu_cores", "processors that the broker or the agent uses"),
    "rss": ("resident_bytes", "resident memory of the broker or the agent"),
    "written": ("written_bytes_per_second", "bytes that the broker or the agent writes to the disk in a second"),
    "busy": ("busy_share", "share of the time in which the disk, or the network, was busy"),
    "depth": ("backlog_messages", "messages on all queues"),
    "blocked": ("held_producers", "producers that flow control holds back"),
}
_QUANTILES: Final = {"p50": "0.5", "p99": "0.99", "p999": "0.999"}


def prometheus(runs: RunList, ended: EndedRuns) -> bytes:
    registry = CollectorRegistry()

    def gauge(name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"mqlab_{name}", text, [*_LABELS, *labels], registry=registry)

    of_lab = {key: gauge(key, text) for key, text in _OF_LAB.items()}
    of_source = {key: gauge(*named, "source") for key, named in _OF_SOURCE.items()}
    latency = gauge(
        "latency_seconds", "latency, or response time, the mean of the finished runs of the point", "system", "point",
        "quantile",
    )  # fmt: skip
    faults = gauge(
        "faults", "lost, duplicated and other wrong messages of the finished runs that are audited so far", "fault"
    )
    for summary in (run for run in runs.summaries() if run.is_live):
        state, labels = live_state(runs.parent / summary.id, ended), (summary.id, summary.study)
        for key, each in of_lab.items():
            _set(each, labels, state.get(key))
        for source, usage in state["usage"].items():
            is_process = bool(usage.get("rss"))
            for key, each in of_source.items():
                if is_process or key == "busy":
                    _set(each, (*labels, source), usage.get(key))
        for row in state["ended"]["latencies"]:
            for key, quantile in _QUANTILES.items():
                _set(latency, (*labels, row["system"], row["point"], quantile), row[key])
        for name, messages in state["ended"]["faults"].items():
            _set(faults, (*labels, name), messages)
    return bytes(generate_latest(registry))


def _set(gauge: Gauge, labels: tuple[str, ...], value: object) -> None:
    if isinstance(value, int | float):
        gauge.labels(*labels).set(value)
