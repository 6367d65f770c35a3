"""Which system of this run stands for which published one: figures of the two are shown side by side."""

from dataclasses import dataclass

from mqlab.report.data.findings import Findings, stamped
from mqlab.report.render.content import MEASURED, PUBLISHED
from mqlab.report.render.formatting import listed

Subject = tuple[str, str]  # a system and its origin


@dataclass(frozen=True)
class Pair:
    """A published system and the one that was run in its place; one of them may be missing."""

    published: str | None
    measured: str | None

    @property
    def subjects(self) -> list[Subject]:
        names = ((self.published, PUBLISHED), (self.measured, MEASURED))
        return [(name, origin) for name, origin in names if name is not None]


def pairs(findings: Findings) -> list[Pair]:
    """The published systems in their order, each with the one run in its place; then those that stand for none."""
    run = [system.name for system in findings.systems]
    found = [Pair(name, in_place_of(findings, name)) for name in findings.study.systems_published]
    taken = {pair.measured for pair in found}
    return found + [Pair(None, name) for name in run if name not in taken]


def pair_name(findings: Findings, pair: Pair) -> str:
    """Both names, for a legend that serves published and measured figures."""
    ours = None if pair.measured is None else stamped(pair.measured, findings.stamps_of(pair.measured))
    if pair.published is None or ours is None or pair.published == pair.measured:
        return ours or pair.published or ""
    return f"{pair.published} (here: {ours})"


def subjects(findings: Findings) -> list[Subject]:
    """All systems, the published ones first."""
    return [(name, PUBLISHED) for name in findings.study.systems_published] + [
        (system.name, MEASURED) for system in findings.systems
    ]


def two(findings: Findings, origin: str) -> tuple[str, str] | None:
    """The two systems that ratios compare, in the study's order; None where there are not two."""
    if origin == PUBLISHED:
        names = list(findings.study.systems_published)
    else:
        ours = [pair.measured for pair in pairs(findings) if pair.measured is not None]
        names = list(dict.fromkeys(ours))
    return (names[0], names[1]) if len(names) > 1 else None


def stands_for(findings: Findings, system: str) -> str:
    """ "in place of A and B", or "" for a system that stands for itself or for none."""
    named = [pair.published for pair in pairs(findings) if pair.measured == system and pair.published]
    others = [name for name in named if name != system]
    return f"in place of {listed(others)}" if others else ""


def in_place_of(findings: Findings, published: str) -> str | None:
    """The system of this run that a name of the study means: itself, or the one that stands for it."""
    run = [system.name for system in findings.systems]
    if published in run:
        return published
    text = findings.study.stand_ins.get(published)
    return text if text in run else None
