"""This work tree against an older one, measured in turns: what a change costs or gains.

OLD is the folder of another checkout (`git worktree add ../before COMMIT`). Each key is the rate of this tree over the
rate of the older one. A ... H, P, RR1 and RR8 are those of `peers.py` on the embedded broker; `plain` is the plain API,
one call a message on either side. Only when they are asked for (`--key study_pass`): passes of the pipeline a second
over the runs of a quick jms-four-brokers, which the older tree has played. study_pass is the second pass of a new
session, like `study_pass_s` of `pipeline.py`; later_pass are the passes of one long session, without the first.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median

from _common import HERE, arguments, finish, interleaved, ratio
from _tree import LATER_PASS, PLAIN, STUDY_PASS

KEYS = ("A", "D", "G", "P", "RR1", "RR8", PLAIN)


class Tree:
    """A process that measures with the package of one work tree."""

    def __init__(self, stack: ExitStack, folder: Path, script: str, *arguments: str) -> None:
        if not (folder / "src" / "mqlab").is_dir():
            raise SystemExit(f"{folder} is no work tree of mqlab: it has no src/mqlab")
        self._folder = folder
        environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
        command = [sys.executable, str(HERE / "bench" / script), str(folder), *arguments]
        self._process = stack.enter_context(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        )

    def rate(self, line: str) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"{line}: the work tree's process has ended")
        return float(answer)

    def begin_audit(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def await_audit(self) -> None:
        if self._process.wait():
            raise SystemExit(f"the process of {self._folder} failed")


def play_study(tree: Path, runs: Path) -> Path:
    """Let the tree play a quick study, and return the run folder."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "MQLAB_IGNORE_NOISE": "1"}
    command = [sys.executable, "-m", "mqlab", "run", "jms-four-brokers", "--scale", "quick", "--runs", str(runs)]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    (folder,) = (path.parent for path in runs.glob("*/meta.json"))
    return folder


def lines(key: str, folders: dict[str, Path], stack: ExitStack) -> dict[str, str]:
    """The order to each tree. Each has a run folder of its own, since a pass writes to it."""
    if key not in (STUDY_PASS, LATER_PASS):
        return dict.fromkeys(folders, key)
    runs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mqlab-before-after-")))
    played = play_study(folders["old"], runs / "played")
    return {name: f"{key} {shutil.copytree(played, runs / name)}" for name in folders}


def main() -> None:
    options = arguments(__doc__ or "", "two keys, three short rounds", other_tree=True, key="only this one")
    keys = options.key or (("A", "RR1") if options.quick else KEYS)
    seconds = "0.3" if options.quick else "1.0"
    with ExitStack() as stack:
        folders = {"old": options.old.resolve(), "new": HERE}
        trees = {name: Tree(stack, folder, "_tree.py", seconds) for name, folder in folders.items()}
        rounds = options.rounds or (3 if options.quick else 10)
        found: dict[str, list[float]] = {}
        for key in keys:  # one by one, so that the two sides of a ratio are measured close together
            asked = lines(key, folders, stack)
            found |= interleaved(
                {f"{key} {name}": partial(tree.rate, asked[name]) for name, tree in trees.items()}, rounds
            )
        for tree in trees.values():
            tree.begin_audit()
        for tree in trees.values():
            tree.await_audit()
    finish(
        **{key: ratio(found[f"{key} new"], found[f"{key} old"]) for key in keys},
        per_second={name: round(median(rates), 3) for name, rates in found.items()},
    )


if __name__ == "__main__":
    main()
