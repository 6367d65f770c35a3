"""The plan of the conductor: the points of a study, the systems to play them on, and how long it may take."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mqlab.json_values import JsonObject
from mqlab.runner.agents.launcher import AgentLauncher, LocalLauncher
from mqlab.runner.capability import setting_error
from mqlab.runner.resume import KeptRun
from mqlab.runner.rounds import Budget
from mqlab.runner.study_files import check_files
from mqlab.study import Point, Study
from mqlab.study.capacity.search import RunRequest
from mqlab.study.rounds.switching import why_not_switched
from mqlab.systems import System, SystemSettingError


@dataclass(frozen=True)
class RunPlan:
    """The points to play, the systems to play them on, and with how many agents.

    Raises SystemSettingError if no system accepts the settings of a point, or if a system cannot switch between those
    of a scenario with `switch`, and StudyError if a point names a file that its study may not read.
    """

    study: Study
    scale: str
    points: Sequence[Point]
    systems: Sequence[System]
    agents: int = 2
    command: str = ""
    # False: the noise of the machine is not recorded, and no run is repeated because it is disturbed or not steady.
    watch_noise: bool = True
    # None: each point is repeated until its repetition rule is met.
    budget: Budget | None = None
    # Whether every repetition begins with systems that were started anew, so that it contains the luck of a start.
    restart: bool = False
    data: Path | None = None  # the folder for the data of the systems; None: the run folder
    # The command that runs the same points on the same systems, without a budget; "": there is none.
    again: str = ""
    # The command needs them to go on after an interruption; meta.json keeps them. {}: it cannot go on.
    options: JsonObject = field(default_factory=dict)
    # The runs that were played before an interruption; None: the run folder is new.
    kept: Sequence[KeptRun] | None = None
    # Asked, in a thread, when all points are played: further runs, of points that it may make up; none: it is over.
    search: Callable[[], Sequence[RunRequest]] | None = None
    launcher: AgentLauncher = field(default_factory=LocalLauncher)
    # Waited for when the agents are started, before anything is measured; not a part of the budget.
    before_runs: Callable[[], Awaitable[None]] | None = None

    @property
    def looks(self) -> int:
        """How often the lab looks at the means, to decide whether they need more runs."""
        by_means = self.budget is not None and self.budget.find_open is not None
        return max((point.repeat.looks for point in self.points), default=1) if by_means else 1

    def __post_init__(self) -> None:
        for point in self.points:
            for system in self.systems:
                check_files(self.study, system, point.settings)
            errors = [error for system in self.systems if (error := setting_error(system, point))]
            if errors and len(errors) == len(self.systems):
                raise errors[0]
        for system in self.systems:
            if reason := why_not_switched(self.points, system.live_settings):
                raise SystemSettingError(f"{system.name}: {reason}")
