"""Measures invented for one claim of a study, in memory, and a search for those that make it hold or fail."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mqlab.events.folder import RunFolder
from mqlab.pipeline.schema import ImpactRow, MeasureRow
from mqlab.report.claims.evaluation import evaluate
from mqlab.report.claims.values import MeasuredValues, MissingValueError
from mqlab.report.claims.verdicts import ALL_SYSTEMS, Verdict, judge
from mqlab.report.data.run_results import RunResults
from mqlab.study import METRICS, Claim, Point, Study
from mqlab.study.language.expression import parse
from mqlab.study.language.reference import PointIndex

# Of a scale at which every claim has its points.
SCALE = "standard"
_START = 100.0
_CERTAINTY = 0.001  # half of the interval, as a share of the value
# Trials from the start, each time more: a search that went astray begins anew.
_TRIALS = (50, 100, 200, 400, 800, 1600)

Place = tuple[str, str, str, str]  # system, scenario, point, metric


@dataclass
class InventedMeasures:
    """`system_names` are those of the run. Values that the claim refers to begin as equals."""

    study: Study
    claim: Claim
    system_names: Sequence[str]
    values: dict[Place, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.claim.check is not None
        self.expression = parse(self.claim.check)
        self._study = replace(self.study, claims=(self.claim,))
        self.points = {(point.scenario, point.name): point for point in self.study.points(SCALE)}
        self._index = PointIndex(tuple(self.points.values()))
        systems = [{"name": name, "version": "7", "stamps": []} for name in self.system_names]
        self._meta = {"scale": SCALE, "systems": systems, "status": "complete"}
        # The values that one reference names for one system.
        self.groups: list[list[Place]] = []
        values = MeasuredValues(self.results)
        for reference in self.expression.references():
            named = [values.resolve_system(reference.system)] if reference.system else self.system_names
            points = self._index.find(reference)
            for system in named:
                if system is not None:
                    self.groups.append([(system, point.scenario, point.name, reference.metric) for point in points])
        self.values |= {place: _START for group in self.groups for place in self._with_bases(group)}

    def _with_bases(self, group: list[Place]) -> list[Place]:
        bases = [
            (system, scenario, base, metric)
            for system, scenario, name, metric in group
            if (base := self.points[scenario, name].base) is not None
        ]
        return group + bases

    @property
    def results(self) -> RunResults:
        results = RunResults(RunFolder(Path("invented")), self._meta, self._study).with_tables(
            measures=tuple(map(self._measure, self.values)), run_measures=(), audits=(), impacts=tuple(self._impacts())
        )
        vars(results).update(points=tuple(self.points.values()), point_index=self._index)
        return results

    def _measure(self, place: Place) -> MeasureRow:
        system, scenario, point, metric = place
        value = self.values[place]
        unit, half = METRICS[metric].unit, value * _CERTAINTY
        return MeasureRow(
            self.study.id, scenario, point, system, metric, value, unit, half, 5, 4, "broker", 5, 0, 0, True, None, None
        )

    def _impacts(self) -> list[ImpactRow]:
        rows = []
        for (system, scenario, name, metric), value in self.values.items():
            point: Point = self.points[scenario, name]
            if point.base is None:
                continue
            change = 100 * (value / self.values[system, scenario, point.base, metric] - 1)
            half = abs(change) * _CERTAINTY
            rows.append(
                ImpactRow(
                    scenario=scenario, point=name, system=system, metric=metric, base=point.base, value=change,
                    low=change - half, high=change + half, ci95=half, paired=True, runs=5,
                    degrees_of_freedom=4,
                )
            )  # fmt: skip
        return rows

    @property
    def subject(self) -> str:
        return self.system_names[0] if self.expression.about_each else ALL_SYSTEMS

    def verdict(self) -> Verdict:
        found = [v for v in judge(self.results) if v.basis == "measured" and v.subject == self.subject]
        assert len(found) == 1
        return found[0]

    def search(self, wanted: bool) -> bool:
        """Scale the values of a system, of a reference or of a point, at random, until the claim has that truth."""
        chance = random.Random(1)
        systems = [[place for place in self.values if place[0] == name] for name in self.system_names]
        kinds = [[group for group in systems if group], self.groups, [[place] for place in self.values]]
        return any(self._walk(wanted, trials, chance, kinds) for trials in _TRIALS)

    def _walk(self, wanted: bool, trials: int, chance: random.Random, kinds: list[list[list[Place]]]) -> bool:
        self.values = dict.fromkeys(self.values, _START)
        distance = self._distance(wanted)
        for _ in range(trials):
            if distance == 0:
                return True
            group = chance.choice(chance.choice(kinds))
            factor = math.exp(chance.choice((0.03, 0.3, 1, 3)) * chance.gauss(0, 1))
            before = dict(self.values)
            self.values |= {place: before[place] * factor for place in group}
            changed = self._distance(wanted)
            if changed <= distance:
                distance = changed
            else:
                self.values = before
        return False

    def _distance(self, wanted: bool) -> float:
        """How far the compared values are from limits that they must reach; 0: the claim has the wanted truth."""
        try:
            result = evaluate(self.expression, MeasuredValues(self.results, self.subject))
        except MissingValueError:
            return math.inf
        if result.truth is wanted:
            return 0.0
        if not wanted:
            # One comparison that fails is enough: any walk leads to it.
            return 1.0
        distances = []
        for one in result.comparisons:
            gap = (
                min((abs(one.value.value - limit) / abs(limit or 1) for limit in one.limits), default=0)
                if one.value
                else 0
            )
            distances.append(0.0 if one.truth else 1 + math.log1p(gap))
        return sum(distances)
