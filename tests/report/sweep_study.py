"""A small study with every form of exhibit, two published systems and their stand-ins, and figures a test can name."""

from pathlib import Path

import yaml

from mqlab.json_values import JsonObject
from mqlab.study import Point, load_study

from .fabricated import fabricated
from .synthetic_runs import SyntheticRuns

FIRST, SECOND = "Alpha MQ 1", "Beta MQ 2"
OURS, SCAN = "embedded", "embedded:retrieval=scan"

DECLARED: JsonObject = {
    "study": "sweeps",
    "title": "Sweeps",
    "systems": {FIRST: [], SECOND: []},
    "stand_ins": {FIRST: OURS, SECOND: SCAN},
    "published": "published.csv",
    "defaults": {"queues": 1, "message": {"size": "1KiB", "persistent": "no"}},
    "scenarios": {
        "preload": {
            "pattern": "request-reply",
            "requesters": 6,
            "responders": 4,
            "preload": [0, 50, 100, 1000],
            "base": {"preload": 0},
        },
        "grid": {
            "title": "The grid",
            "pattern": "request-reply",
            "clients": [1, 2],
            "threads": [1, 4],
            "responders": 1,
            "message": {"size": ["100B", "1KiB"]},
        },
        "bulk": {"producers": 2, "consumers": 2, "message": {"size": ["100B", "1KiB"]}},
        "flow": {
            "producers": 5,
            "consumers": 1,
            "settings": {"queue_limit": ["1MB", "10MB"]},
            "client_cpu": "75%",
        },
    },
    "scales": {"quick": {"phases": {"measure": "1s"}, "scenarios": {"preload": {"preload": [0, 50]}}}},
    "exhibits": [
        {
            "table": "Table 3",
            "of": ["preload"],
            "by": ["preload"],
            "columns": [
                {"value": "rate.round_trips", "as": "Messages/s"},
                {"ratio": "rate.round_trips", "as": "Ratio"},
                {"faster": "rate.round_trips", "as": "% faster"},
                {"impact": "rate.round_trips", "as": "Impact%"},
            ],
        },
        {
            "table": "Table 4",
            "of": ["grid"],
            "where": {"clients": 1},
            "by": ["size"],
            "columns": [
                {"peak": "bytes.round_trips", "over": ["threads"], "as": "KB/s"},
                {"ratio": "bytes.round_trips", "over": ["threads"]},
            ],
        },
        {"table": "Table 5", "of": ["grid"], "by": ["threads"], "columns": [{"value": "response.mean"}]},
        {"table": "Both", "of": ["bulk", "flow"], "by": ["size"], "columns": [{"value": "rate.received"}]},
        {"lines": "Figure 6", "of": ["preload"], "x": "preload", "values": ["rate.round_trips"]},
        {
            "lines": "Figure 2",
            "of": ["grid"],
            "where": {"size": "1KiB"},
            "x": "threads",
            "by": ["clients"],
            "values": ["rate.round_trips", "cpu.broker"],
        },
        {"bars": "Bulk", "of": ["bulk"], "by": ["size"], "value": "rate.received"},
        {"series": "Flow control", "of": ["flow"]},
        {"setup": "Set-up"},
    ],
    "claims": [
        {
            "id": "everywhere",
            "says": "Alpha is faster everywhere.",
            "source": "the text",
            "check": f'min(rate.round_trips[preload, preload=*] of "{FIRST}" / '
            f'rate.round_trips[preload, preload=*] of "{SECOND}") > 1',
            "note": "Read as: at every depth.",
        },
        {
            "id": "collapse",
            "says": "Beta loses four fifths.",
            "source": "the text",
            "check": f'impact(rate.round_trips[preload, preload=50] of "{SECOND}") < -80',
        },
    ],
}

RATES = {(OURS, "0"): 5000.0, (SCAN, "0"): 1250.0, (OURS, "50"): 4900.0, (SCAN, "50"): 500.0}


def _printed() -> str:
    """What the study printed: rates at three depths, with ratios; the peaks of single clients; an onset."""
    rows = ["study,table,system,scenario,parameters,metric,unit,value"]
    for depth, one, other in (("0", "498.6", "122.3"), ("50", "490", "71.2"), ("1000", "376.5", "N/A")):
        place = f"preload,size=1024;preload={depth}"
        rows.append(f"sweeps,Table 3,{FIRST},{place},throughput,messages/s,{one}")
        rows.append(f"sweeps,Table 3,{SECOND},{place},throughput,messages/s,{other}")
    rows.append(f"sweeps,Table 3,{FIRST} / {SECOND},preload,size=1024;preload=0,ratio,times,4.1")
    rows.append(f"sweeps,Table 3,{FIRST} vs {SECOND},preload,size=1024;preload=0,percent_faster,%,308")
    rows.append(f"sweeps,Table 3,{SECOND} vs {FIRST},preload,size=1024;preload=1000,percent_faster,%,908")
    rows.append(f"sweeps,Table 3,{SECOND},preload,size=1024;preload=50,percent_decrease,%,41.7")
    peak = "grid,size=1024;clients=1;threads=1..15"
    rows.append(f"sweeps,Table 4,{FIRST},{peak},bytes_per_second,KB/s (1 KB = 1000 bytes),1510.6")
    rows.append(f"sweeps,Table 4,{FIRST},{peak},threads_at_peak,threads,2")
    return "\n".join(rows) + "\n"


def rate(point: Point, system: str) -> float:
    if point.scenario == "preload":
        return RATES[system, point.parameters["preload"]]
    known = 1000.0 * int(point.parameters.get("threads", "1")) * int(point.parameters.get("clients", "1"))
    return known / (2 if system == SCAN else 1)


def sweeps(folder: Path, **changed: object) -> SyntheticRuns:
    """A quick run of the study, with `changed` keys in place of its own."""
    folder.mkdir()
    (folder / "study.yaml").write_text(yaml.safe_dump({**DECLARED, **changed}, sort_keys=False))
    (folder / "published.csv").write_text(_printed())
    made = fabricated(load_study(folder), rate=rate)
    if "flow" in made.study.scenarios:
        add_time_series(made)
    return made


def one_scenario(folder: Path, **changed: object) -> SyntheticRuns:
    """The same with its first scenario only and no exhibits, for tests that care for neither."""
    kept = {"preload": DECLARED["scenarios"]["preload"]}
    return sweeps(folder, **{"scenarios": kept, "exhibits": [], "claims": [], **changed})


def add_time_series(made: SyntheticRuns) -> None:
    """Two seconds of the first run of each system: a burst, then held back."""
    for system in (OURS, SCAN):
        run = next(a["run"] for a in made.rows["audits"] if (a["scenario"], a["system"]) == ("flow", system))
        place = {"run": run, "scenario": "flow", "point": "queue_limit=1MB", "system": system, "repetition": 1}
        for step in range(10):
            pace = {"seconds": step / 5, "sent": 900.0 if step < 6 else 100.0, "received": 100.0, "phase": "measure"}
            made.rows["paces"].append({**place, **pace})
            depth = {"source": "broker", "seconds": step / 5, "depth": 160.0 * min(step, 6)}
            made.rows["depths"].append({**place, **depth, "blocked": None, "holds": None, "held_seconds": None})
