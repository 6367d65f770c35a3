"""The options that say where the agents run: processes of this machine, or tasks of a Spark cluster."""

import re
from typing import Annotated, Final

import typer

from mqlab.cli.measure import spark_target
from mqlab.cli.terminal.console import Exit, fail
from mqlab.cluster.launcher import SparkLauncher
from mqlab.runner.agents.launcher import AgentLauncher, LocalLauncher

DEFAULT_COUNT: Final = 2
_MOST_PROCESSES: Final = 64
_MASTER: Final = re.compile(r"(spark|k8s)://.+|yarn|local(-cluster)?\[.+\]")

AgentsOption = Annotated[
    str,
    typer.Option(
        metavar="NUMBER|MASTER",
        help="Agents, which run the roles: processes of this machine, or tasks of a barrier stage on a Spark "
        "master (spark://HOST:PORT). See docs/scale.md.",
    ),
]
AgentCountOption = Annotated[
    int | None,
    typer.Option(min=1, max=1024, help=f"The number of agents on a Spark master. Default: {DEFAULT_COUNT}."),
]


def agent_launcher(agents: str, count: int | None, conf: list[str] | None) -> tuple[AgentLauncher, int]:
    """The launcher, and the number of agents. Ends the command on an error."""
    if agents.isdecimal():
        if not 1 <= int(agents) <= _MOST_PROCESSES:
            fail(f"--agents {agents}: must be from 1 to {_MOST_PROCESSES}", Exit.USAGE)
        if count is not None:
            fail("--agent-count needs --agents with a Spark master: spark://HOST:PORT", Exit.USAGE)
        return LocalLauncher(), int(agents)
    if agents.startswith("sc://"):
        fail(f"--agents {agents}: Spark Connect has no barrier stages; name the master, spark://HOST:PORT", Exit.USAGE)
    if not _MASTER.fullmatch(agents):
        fail(f"--agents {agents}: must be a number, or a Spark master such as spark://HOST:PORT", Exit.USAGE)
    return SparkLauncher(spark_target(agents, conf)), DEFAULT_COUNT if count is None else count
