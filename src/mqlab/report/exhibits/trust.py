"""Reasons to trust the figures of a report or not, each with its evidence; and how undecided claims can be decided."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

from mqlab.pipeline.schema import FAILED, LAB, NoiseRow
from mqlab.report.claims.verdicts import INCONCLUSIVE, Verdict, missing_text
from mqlab.report.data.run_results import RunResults
from mqlab.report.exhibits.headline import audit_tile
from mqlab.report.render.content import FAIR, GOOD, POOR, UNKNOWN, TrustLight, Undecided
from mqlab.report.render.formatting import count, listed

# More minutes are not worth waiting for if fewer decide another claim.
_PATIENCE_MINUTES: Final = 60.0
# The share of points from which a fault of some is a fault of the whole.
_MANY: Final = 0.5


def trust_lights(results: RunResults) -> tuple[TrustLight, ...]:
    return (_audit(results), _noise(results), _steady(results), _lab_share(results), _like_for_like(results))


def undecided(results: RunResults, verdicts: Sequence[Verdict]) -> Undecided | None:
    """None if every claim that the run can decide is decided."""
    open_claims = [v for v in verdicts if v.verdict == INCONCLUSIVE and v.basis == "measured"]
    if not open_claims:
        return None
    text = f"{count(len(open_claims), 'claim is', 'claims are')} undecided"
    known = sorted(v.missing_minutes for v in open_claims if v.missing_minutes is not None)
    # The claims share the time: those that need least come first.
    needed = [minutes for minutes in accumulate(known) if minutes <= _PATIENCE_MINUTES] or known[:1]
    more, _, command = missing_text(needed[-1], results).partition(": ") if needed else ("", "", "")
    if not command:
        return Undecided(f"{text}; the verdicts below say what each of them lacks.", "")
    return Undecided(f"{text}; {more} would decide {len(needed):,} of {len(open_claims):,}.", command)


def _audit(results: RunResults) -> TrustLight:
    tile = audit_tile(results)
    state = UNKNOWN if not results.audits else POOR if tile.tone == FAILED else GOOD
    return TrustLight("Audit", state, f"{tile.figure}: {tile.note}", "audit")


def _noise(results: RunResults) -> TrustLight:
    watched = [run for run in results.noise if run.steal is not None]
    if not watched:
        return TrustLight("Noise", UNKNOWN, "other work on the machine was not watched", "noise")
    state, words = _flagged(watched, "disturbed")
    text = f"no run of {len(watched):,} was disturbed" if state == GOOD else f"{words} disturbed by other work"
    return TrustLight("Noise", state, text, "noise")


def _steady(results: RunResults) -> TrustLight:
    if not results.noise:
        return TrustLight("Steady state", UNKNOWN, "nothing was measured", "noise")
    state, words = _flagged(results.noise, "unsteady")
    text = f"every run of {len(results.noise):,} that is judged was steady" if state == GOOD else f"{words} not steady"
    return TrustLight("Steady state", state, text, "noise")


def _flagged(runs: Sequence[NoiseRow], why: str) -> tuple[str, str]:
    """The state, by the flagged runs that count for figures since their points have no other; and both in words."""
    flagged = [run for run in runs if getattr(run, why)]
    counting = sum(run.used for run in flagged)
    state = GOOD if not flagged else POOR if counting > _MANY * sum(run.used for run in runs) else FAIR
    part = f"{counting:,} of them count, marked" if counting else "none counts"
    return state, f"{len(flagged):,} of {len(runs):,} runs ({part}) {'was' if len(flagged) == 1 else 'were'}"


def _lab_share(results: RunResults) -> TrustLight:
    """Points whose rate the lab's own work bounded have lower bounds in place of figures."""
    work = {(point.scenario, point.name): point.work for point in results.points}
    rates = [m for m in results.measures if m.metric == work.get((m.scenario, m.point))]
    shares = [m.value for m in results.measures if m.metric == "cpu.lab"]
    if not rates:
        return TrustLight("Lab share", UNKNOWN, "nothing was measured", "points")
    bounded = sum(m.bound_by == LAB for m in rates)
    most = f"; its own work took {max(shares):.0f} % of a core at most" if shares else ""
    text = "the lab bounded no figure" if not bounded else f"{bounded:,} of {len(rates):,} figures are lower bounds"
    state = GOOD if not bounded else POOR if bounded > _MANY * len(rates) else FAIR
    return TrustLight("Lab share", state, text + most, "points")


def _like_for_like(results: RunResults) -> TrustLight:
    if len(results.systems) < 2:
        text = "one system; published figures come from other machines: compare shapes"
        return TrustLight("Like for like", UNKNOWN, text, "durability")
    differences = list(_differences(results))
    text = f"the systems differ in {listed(differences)}" if differences else "the same in travel, syncs and points"
    return TrustLight("Like for like", FAIR if differences else GOOD, text, "durability")


def _differences(results: RunResults) -> Iterator[str]:
    names = [system.name for system in results.systems]
    ran = [{(m.scenario, m.point) for m in results.measures if m.system == name} for name in names]
    if any(points != ran[0] for points in ran):
        yield "the points that they ran"
    common = set.intersection(*ran)
    if any(len({results.travel_at(name, *place).partition(",")[0] for name in names}) > 1 for place in common):
        yield "how messages travelled"
    if len({system.durability.get("syncs", "") for system in results.systems}) > 1:
        yield "when they sync"
    if len({system.stamps for system in results.systems}) > 1:
        yield "stamped settings"
