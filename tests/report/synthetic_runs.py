"""A run folder with synthetic measures: exactly the columns of the pipeline, and values that a test can name."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import permutations
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from mqlab.events.folder import RunFolder
from mqlab.events.sources import EventSources
from mqlab.json_values import JsonObject
from mqlab.pipeline.measure_tables import complete_measures
from mqlab.pipeline.schema import DELIVERY_CLASSES, TABLES
from mqlab.study import METRICS, Point, Study, load_study
from mqlab.study.language.expression import parse
from table_rows import Tables

CLASSES = ("sent", "expected", *DELIVERY_CLASSES)
RATES = {
    "A": 21_345_678.0,
    "B": 98_123_456.0,
    "C": 91_234_567.0,
    "D": 1_512_345.0,
    "E": 2_345_678.0,
    "F": 2_212_345.0,
    "G": 9_512.0,
    "H": 17_834.0,
}
META: JsonObject = {
    "id": "20260101-120000-jms-four-brokers",
    "study": "jms-four-brokers",
    "title": "HornetQ and others",
    "scale": "quick",
    "status": "complete",
    "started": "2026-01-01T12:00:00+00:00",
    "finished": "2026-01-01T12:02:30+00:00",
    "command": "mqlab run jms-four-brokers --scale quick",
    "mqlab": "0.1.0",
    "systems": [{"name": "embedded", "version": "0.1.0", "settings": {"sync": "on"}, "stamps": []}],
    "machine": {
        "cpu": "Imaginary CPU 3.0 GHz",
        "cores": 2,
        "memory": 8 * 2**30,
        "os": "Debian GNU/Linux 12",
        "kernel": "6.1",
        "python": "3.11.4",
        "java": "17",
        "clock": "tsc",
        "filesystem": "ext4",
    },
    "noise": {"max_taken_share": 0.05, "load_average": [0.5, 0.4, 0.3], "clock_hz": 2.5e9},
    "packages": {"pyspark": "4.0.0", "pyarrow": "20.0.0"},
}


@cache
def _built_in() -> Study:
    return load_study("jms-four-brokers")


@dataclass
class SyntheticRuns:
    """Rows by table, to be changed by a test before `write` puts them into a folder."""

    study: Study = field(default_factory=_built_in)
    meta: JsonObject = field(default_factory=lambda: {**META, "systems": [dict(s) for s in META["systems"]]})
    rows: Tables = field(default_factory=lambda: {table: [] for table in TABLES})
    # What `measure` was told: (scenario, point, system, metric) -> value.
    values: dict[tuple[str, str, str, str], float] = field(default_factory=dict)

    def measure(
        self,
        scenario: str,
        metric: str,
        value: float,
        ci95: float | None = None,
        system: str = "embedded",
        bound_by: str | None = "broker",
        runs: int = 3,
        point: str = "",
        client_cpu: bool | None = None,
        quiet: bool = True,
        observations: int | None = None,
    ) -> None:
        self.values[scenario, point, system, metric] = value
        self.rows["measures"].append(
            {
                "study": self.study.id,
                "scenario": scenario,
                "point": point,
                "system": system,
                "metric": metric,
                "value": value,
                "unit": METRICS[metric].unit,
                "ci95": ci95,
                "runs": runs,
                "degrees_of_freedom": runs - 1 or None,
                "bound_by": bound_by,
                "attempted": runs,
                "void": 0,
                "flagged": 0 if quiet else runs,
                "quiet": quiet,
                "client_cpu": client_cpu,
                "observations": observations,
            }
        )

    def impact(self, point: Point, system: str, metric: str, value: float, half: float | None) -> None:
        ends = {"low": None, "high": None} if half is None else {"low": value - half, "high": value + half}
        place = {"scenario": point.scenario, "point": point.name, "system": system, "metric": metric}
        more = {"base": point.base, "value": value, **ends, "ci95": half, "paired": True, "runs": 2}
        self.rows["impacts"].append({**place, **more, "degrees_of_freedom": 1})

    def peak(self, point: Point, system: str, metric: str, over: Sequence[str], parameters: str, value: float) -> None:
        at = ", ".join(f"{name}={point.parameters[name]}" for name in over)
        place = {"scenario": point.scenario, "system": system, "metric": metric, "over": ", ".join(over)}
        figure = {"value": value, "unit": METRICS[metric].unit, "ci95": value * 0.02, "runs": 2, "bound_by": "broker"}
        self.rows["peaks"].append({**place, "parameters": parameters, **figure, "at": at, "point": point.name})

    def comparison(
        self,
        scenario: str,
        point: str,
        first: str,
        second: str,
        metric: str,
        ratio: float,
        over: Sequence[str] = (),
        parameters: str = "",
    ) -> None:
        percent = 100 * (max(ratio, 1 / ratio) - 1)
        place = {"scenario": scenario, "point": point, "over": ", ".join(over), "parameters": parameters}
        who = {"first": first, "second": second, "metric": metric, "faster": first if ratio >= 1 else second}
        known = {"ratio": ratio, "low": ratio * 0.97, "high": ratio * 1.03, "ci95": ratio * 0.03}
        ahead = {"percent_faster": percent, "percent_low": percent - 3, "percent_high": percent + 3}
        self.rows["comparisons"].append({**place, **who, **known, **ahead, "paired": True, "runs": 2})

    def run(
        self,
        scenario: str,
        repetition: int = 1,
        status: str = "clean",
        reason: str | None = None,
        point: str = "",
        system: str = "embedded",
        rate: float | None = None,
        disturbed: str = "",
        unsteady: str = "",
        **classes: int | None,
    ) -> int:
        number = len(self.rows["audits"]) + 1
        place = {"run": number, "scenario": scenario, "point": point, "system": system, "repetition": repetition}
        counts = {**dict.fromkeys(CLASSES, 0), "sent": 1000, "expected": 1000, "delivered": 1000, **classes}
        self.rows["audits"].append({**place, **counts, "status": status, "reason": reason})
        watched = {"steal": 0.02, "foreign": 0.3 if disturbed else 0.001, "foreign_name": "cc1" if disturbed else ""}
        waits = {"cpu_wait": 0.5, "memory_wait": 0.0, "disk_wait": None, "clock_hz": 2.5e9}
        marks = {"valid": status == "clean", "disturbed": disturbed, "unsteady": unsteady}
        is_used = status == "clean" and not disturbed and not unsteady
        self.rows["noise"].append({**place, **marks, "used": is_used, **watched, **waits})
        if rate is not None:
            self.rows["run_measures"].append({**place, "metric": "rate.received", "value": rate, "unit": "messages/s"})
        return number

    def drop(self, scenario: str) -> None:
        for table, rows in self.rows.items():
            self.rows[table] = [row for row in rows if row["scenario"] != scenario]

    def write(self, path: Path) -> RunFolder:
        path.mkdir(parents=True)
        folder = RunFolder(path)
        for part in (folder.events, folder.measures, folder.report, folder.study):
            part.mkdir()
        folder.write_meta(self.meta)
        self.study.copy(folder.study)
        for table, measure_table in TABLES.items():
            target = folder.measures / table / "part.parquet"
            target.parent.mkdir()
            pq.write_table(pa.Table.from_pylist(self.rows[table], schema=measure_table.schema), target)
        tables = {table: folder.measures / table / "part.parquet" for table in TABLES}
        complete_measures(folder, EventSources({}), tables)
        return folder


def cut_down(folder: Path, scenarios: str) -> SyntheticRuns:
    """The same study with some of its scenarios only: its pictures are what takes time."""
    study = _built_in()
    folder.mkdir()
    study.copy(folder)
    declared = yaml.safe_load((folder / "study.yaml").read_text())
    declared["scenarios"] = {name: declared["scenarios"][name] for name in scenarios}
    declared.pop("prose", None)
    declared["scales"]["quick"].pop("scenarios")
    declared["scales"]["standard"].pop("scenarios")
    declared["exhibits"] = [exhibit for exhibit in declared["exhibits"] if exhibit.get("of") != ["open-loop"]]
    (folder / "study.yaml").write_text(yaml.safe_dump(declared, sort_keys=False))
    claims = [
        c
        for c in study.claims
        if c.check is None or {r.scenario for r in parse(c.check).references()} <= set(scenarios)
    ]
    kept = [claim.model_dump(exclude_none=True) for claim in claims]
    (folder / "claims.yaml").write_text(yaml.safe_dump(kept, sort_keys=False))
    made = SyntheticRuns(study=load_study(folder))
    add_system(made, "embedded")
    for scenario in set(RATES) - set(scenarios):
        made.drop(scenario)
    return made


def whole_study() -> SyntheticRuns:
    """All eight scenarios, three clean runs each, known within 1 %."""
    made = SyntheticRuns()
    add_system(made, "embedded")
    return made


def take_turns(made: SyntheticRuns) -> None:
    """Number the runs as the conductor plays them: at each point the systems take turns."""
    played = sorted(made.rows["audits"], key=lambda run: (run["scenario"], run["point"], run["repetition"]))
    numbers = {run["run"]: number for number, run in enumerate(played, start=1)}
    for row in (row for rows in made.rows.values() for row in rows if "run" in row):
        row["run"] = numbers[row["run"]]


def add_system(made: SyntheticRuns, system: str, factor: float = 1.0) -> None:
    # In another order for each of six systems: their rounds share no noise.
    before = {row["system"] for row in made.rows["measures"]}
    parts = [*permutations((0.995, 1.0, 1.005))][len(before) % 6]
    for scenario, base in RATES.items():
        rate = base * factor
        copies = 15 if scenario in "BCEF" else 1
        bound = "lab" if scenario in "AB" else "disk" if scenario in "GH" else "broker"
        size = 12 if scenario in "ABC" else 1024
        figures = {
            "rate.received": rate,
            "rate.sent": rate / copies,
            "copies": copies,
            "bytes.received": rate * size,
            "latency.p50": 0.00041,
            "latency.p90": 0.0012,
            "latency.p99": 0.0041,
            "latency.p99.9": 0.0123,
            "latency.max": 0.0987,
            "latency.mean": 0.0006,
            "cpu.broker": 97.0,
            "cpu.agents": 88.0,
            "rss.broker": 123_456_789.0,
            "rss.agents": 234_567_890.0,
        }
        if scenario in "GH":
            figures |= {"confirm.p50": 0.0041, "confirm.p99": 0.0079, "syncs": 250.0, "sync.share": 91.0}
        for metric, value in figures.items():
            made.measure(scenario, metric, value, 0.0 if metric == "copies" else value * 0.01, system, bound)
        for repetition, part in enumerate(parts, start=1):
            number = made.run(scenario, repetition, system=system, rate=rate * part)
            _seconds(made, number, scenario, repetition, system, rate * part, copies)
        edge = 0.0001
        for count in (10, 400, 3000, 900, 400, 200, 60, 20, 8, 2):
            made.rows["latencies"].append(
                {"scenario": scenario, "point": "", "system": system, "latency": edge, "count": count}
            )
            edge *= 2


def _seconds(
    made: SyntheticRuns, number: int, scenario: str, repetition: int, system: str, rate: float, copies: int
) -> None:
    for second, phase in enumerate(("warm-up", "measure", "measure", "measure", "drain")):
        share = {"warm-up": 0.6, "measure": 1.0, "drain": 0.1}[phase] * (1 + 0.03 * ((second * 7 + number) % 3 - 1))
        made.rows["series"].append(
            {
                "run": number,
                "scenario": scenario,
                "point": "",
                "system": system,
                "repetition": repetition,
                "second": second,
                "sent": 0.0 if phase == "drain" else rate * share / copies,
                "received": rate * share,
                "phase": phase,
            }
        )


def add_latency_slots(made: SyntheticRuns, scenario: str, fault: str = "", slots: int = 25) -> None:
    """Latencies over time of a scenario's first run; with a fault, slow messages and held producers from 2 s on."""
    audit = next(row for row in made.rows["audits"] if row["scenario"] == scenario)
    run = {name: audit[name] for name in ("run", "scenario", "point", "system", "repetition")}
    for slot in range(slots):
        seconds, is_slow = slot / 5, fault and 10 <= slot < 15
        made.rows["paces"].append(
            {**run, "seconds": seconds, "sent": 1.0, "received": 1.0, "phase": "warm-up" if slot < 5 else "measure"}
        )
        for bucket, count in enumerate((3, 60, 900, 2400, 700, 80, 9, 1)):
            if (bucket + slot) % 8 != 7:
                latency = 0.0004 * 1.334 ** (bucket + (18 if is_slow else slot % 2))
                row = {"kind": "latency", "seconds": seconds, "length": 0.2, "latency": latency, "count": count}
                made.rows["latency_slots"].append({**run, **row})
    if fault:
        effect = {"number": 1, "kind": fault.split()[0], "fault": fault, "started": 2.0, "lasted": 1.0}
        made.rows["faults"].append({**run, **effect, "outage": 1.0, "recovery": 1.2, "messages": 500})
        for number, blocked in enumerate((0, 0, 0, 0, 0, 0, 4, 0, 0)):
            sample = {"source": "broker", "seconds": number / 2, "depth": 10, "blocked": blocked, "holds": 0}
            made.rows["depths"].append({**run, **sample, "held_seconds": 0.0})
