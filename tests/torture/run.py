"""Run the long forms of all that the broker must survive, one after the other, each to its figure.

python tests/torture/run.py [--list] [--only ROW]... [--quick]
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mqlab.json_values import JsonObject

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))

from torture.rows import ROWS, Row  # noqa: E402 - found only now

# A row that was interrupted may put its things in order.
_ENDING_SECONDS = 20.0
_SHOWN = 6


@dataclass
class Outcome:
    row: Row
    ok: bool
    seconds: float
    figures: JsonObject = field(default_factory=dict)
    why: str = ""

    @property
    def document(self) -> JsonObject:
        return {**self.figures, "ok": self.ok, "seconds": round(self.seconds, 1)}

    @property
    def summary(self) -> str:
        numbers = [(name, value) for name, value in self.figures.items() if value or name in self.row.none]
        wanted = [one for one in numbers if one[0] in (*self.row.least, *self.row.none)]
        rest = [one for one in numbers if one not in wanted and isinstance(one[1], int | float)]
        shown = ", ".join(f"{name} {_plain(value)}" for name, value in (*wanted, *rest)[:_SHOWN])
        return f"{shown}; {self.why}" if self.why else shown


def _plain(value: object) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.1f}" if isinstance(value, float) else str(value or 0)


def play(row: Row, *, quick: bool) -> Outcome:
    """Raises KeyboardInterrupt, when what it had started is gone."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mqlab-torture-") as folder:
        command, environment = _command(row, Path(folder), quick=quick)
        code, said = _run(command, environment, keep=bool(row.script))
        figures = _figures(row, Path(folder), said)
    short = [] if quick else row.shortfalls(figures)
    why = "" if code == 0 else f"exit code {code}"
    if short:
        why = "; ".join((why, *short)).removeprefix("; ")
    if not figures and not why:
        why = "it says nothing"
    return Outcome(row, not why, time.monotonic() - begin, figures, why)


def _command(row: Row, folder: Path, *, quick: bool) -> tuple[list[str], dict[str, str]]:
    environment = {name: value for name, value in os.environ.items() if name != "MQLAB_TORTURE"}
    if row.script:
        path, *options = row.script
        return [sys.executable, str(ROOT / path), *(row.quick if quick else options)], environment
    environment["MQLAB_FIGURES"] = str(folder / "figures")
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(HERE.parent), os.environ.get("PYTHONPATH"))))
    if not quick:
        environment["MQLAB_TORTURE"] = "1"
    # Its own limit would end what is long on purpose.
    options = ["-q", "-p", "torture.figures", "-p", "no:cacheprovider", "--timeout", "14400"]
    return [sys.executable, "-m", "pytest", *options, *row.tests], environment


def _run(command: Sequence[str], environment: dict[str, str], *, keep: bool) -> tuple[int, str]:
    """The exit code, and what it said on stdout if that is to be kept; else it goes where progress goes."""
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE if keep else sys.stderr, text=True
    )
    try:
        said, _ = process.communicate()
    except KeyboardInterrupt:
        _end(process)
        raise
    return process.returncode, said or ""


def _end(process: "subprocess.Popen[str]") -> None:
    """The terminal has told it, too; who does not listen is killed."""
    process.send_signal(signal.SIGINT)
    try:
        process.communicate(timeout=_ENDING_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def _figures(row: Row, folder: Path, said: str) -> JsonObject:
    try:
        if row.script:
            # Either one document, or one in the last line.
            text = said if said.lstrip().startswith("{") else said.strip().rpartition("\n")[2]
            found = json.loads(text)
        else:
            found = json.loads((folder / "figures").read_text())
    except (OSError, ValueError):
        return {}
    return _flat(found) if isinstance(found, dict) else {}


def _flat(found: JsonObject) -> JsonObject:
    """Groups of figures, one by one: `rate.small`."""
    flat: JsonObject = {}
    for name, value in found.items():
        if isinstance(value, dict) and value:
            flat |= {f"{name}.{inner}": one for inner, one in value.items()}
        else:
            flat[name] = value
    return flat


def table(outcomes: Sequence[Outcome]) -> str:
    lines = [
        f"{'ok' if one.ok else 'FAILED':8}{one.row.name:16}{one.seconds:8.0f} s  {one.summary}" for one in outcomes
    ]
    return "\n".join(lines)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None, rows: Sequence[Row] = ROWS) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="name the rows and end")
    parser.add_argument("--only", action="append", metavar="ROW", choices=[row.name for row in rows], help="this row")
    parser.add_argument("--quick", action="store_true", help="short forms: see that everything starts")
    chosen = parser.parse_args(arguments)
    if chosen.list:
        print("\n".join(f"{row.name:16}{row.what}" for row in rows))
        return 0
    wanted = [row for row in rows if not chosen.only or row.name in chosen.only]
    outcomes: list[Outcome] = []
    interrupted = False
    for number, row in enumerate(wanted, 1):
        say(f"== {number} of {len(wanted)}: {row.name}: {row.what}")
        try:
            outcomes.append(play(row, quick=chosen.quick))
        except KeyboardInterrupt:
            interrupted = True
            break
        say(f"== {table(outcomes[-1:])}")
    say(table(outcomes))
    print(json.dumps({one.row.name: one.document for one in outcomes}))
    if interrupted:
        return 130
    return 0 if all(one.ok for one in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
