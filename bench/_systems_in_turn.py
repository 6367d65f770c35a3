"""Systems that play a point in turn, beside each other: the rates of each, or the reason why it has none."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median

from _common import say
from _lab import Lab
from mqlab.runner.capability import why_unsupported
from mqlab.study import Point
from mqlab.systems import SystemFailedError, SystemSettingError, system


@dataclass
class Side:
    """One system in one point: a rate for each round that it was measured in, or why it was not."""

    rates: list[float] = field(default_factory=list)
    why: str = ""

    @property
    def shown(self) -> int | str:
        return round(median(self.rates)) if self.rates else self.why


def play_round(
    lab: Lab, point: Point, names: Mapping[str, str], number: int, sides: dict[str, Side], *, synced: bool = True
) -> None:
    """Measure every system of `names` once, forwards and backwards in turn; their values say how they are set up.

    `synced`: leave out systems that confirm a persistent message before they sync it.
    """
    for name in [*names] if number % 2 else reversed([*names]):
        side = sides.setdefault(name, Side())
        if not side.why:
            side.why = _why_not(names[name], point, synced=synced)
        if not side.why:
            _measure(lab, point, names[name], side)


def _why_not(name: str, point: Point, *, synced: bool) -> str:
    try:
        found = system(name)
    except SystemSettingError as error:
        return str(error)
    if synced and point.persistent and found.durability().syncs != "before confirming":
        return "it does not sync before it confirms"
    return found.missing() or why_unsupported(found, point)


def _measure(lab: Lab, point: Point, name: str, side: Side) -> None:
    try:
        rate = lab.rate(point, name)
        say(f"  {name}: {rate:,.0f}/s")
        if not rate:
            raise SystemExit("nothing arrived while it was measured")
        side.rates.append(rate)
    except (SystemExit, SystemFailedError) as error:
        side.why = str(error)
        say(f"  {name}: left out: {error}")


def best(sides: Mapping[str, Side], own: Iterable[str]) -> str | None:
    """The fastest system that was measured in every round, without the `own` ones; None if there is none."""
    whole = {name: side.rates for name, side in sides.items() if name not in own and side.rates and not side.why}
    return max(whole, key=lambda name: median(whole[name]), default=None)
