"""Pairs of published systems and the systems of this run that stand for them: their figures are side by side.

A published system that is run stands for itself, its later version or successor for it, and a stand-in of the study
for the effect that the study describes.
"""

from dataclasses import dataclass

from mqlab.report.data.run_results import RunResults, stamped
from mqlab.report.render.content import MEASURED, PUBLISHED
from mqlab.report.render.formatting import listed

Subject = tuple[str, str]  # a system and its origin


@dataclass(frozen=True)
class SystemPair:
    """A published system and its stand-in in this run; one of them may be missing."""

    published: str | None
    measured: str | None

    @property
    def subjects(self) -> list[Subject]:
        names = ((self.published, PUBLISHED), (self.measured, MEASURED))
        return [(name, origin) for name, origin in names if name is not None]


def pairs(results: RunResults) -> list[SystemPair]:
    """The published systems in their order with their stand-ins; then the systems that stand for none."""
    run = [system.name for system in results.systems]
    published = [SystemPair(name, stand_in(results, name)) for name in results.study.systems_published]
    stand_ins = {pair.measured for pair in published}
    return published + [SystemPair(None, name) for name in run if name not in stand_ins]


def pair_name(results: RunResults, pair: SystemPair) -> str:
    """Both names, for a legend that serves published and measured figures."""
    measured = None if pair.measured is None else stamped(pair.measured, results.stamps_of(pair.measured))
    if pair.published is None or measured is None or pair.published == pair.measured:
        return measured or pair.published or ""
    return f"{pair.published} (here: {measured})"


def subjects(results: RunResults) -> list[Subject]:
    """All systems, the published ones first."""
    return [(name, PUBLISHED) for name in results.study.systems_published] + [
        (system.name, MEASURED) for system in results.systems
    ]


def compared_systems(results: RunResults, origin: str) -> tuple[str, str] | None:
    """The two systems that ratios compare, in the study's order; None where there are fewer."""
    if origin == PUBLISHED:
        names = list(results.study.systems_published)
    else:
        measured = [pair.measured for pair in pairs(results) if pair.measured is not None]
        names = list(dict.fromkeys(measured))
    return (names[0], names[1]) if len(names) > 1 else None


def stands_for(results: RunResults, system: str) -> str:
    """ "in place of A and B", or "" for a system that stands for itself or for none."""
    published = [pair.published for pair in pairs(results) if pair.measured == system and pair.published]
    others = [name for name in published if name != system]
    return f"in place of {listed(others)}" if others else ""


def stand_in(results: RunResults, published: str) -> str | None:
    """The system of this run that a published name means: itself, its nearest successor, or its stand-in."""
    run = [system.name for system in results.systems]
    if published in run:
        return published
    for successor in results.study.successors.get(published, ()):
        # With settings the name of a system is `hornetq:sync=no`; the one with the fewest is meant.
        if versions := [name for name in run if name.partition(":")[0] == successor]:
            return min(versions, key=len)
    name = results.study.stand_ins.get(published)
    return name if name in run else None


def is_product(results: RunResults, published: str) -> bool:
    """Whether the published system or its successor was run, and not a stand-in of the study."""
    return stand_in(results, published) not in (None, results.study.stand_ins.get(published))
