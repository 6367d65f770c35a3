"""The steady state: when the rate of a run is that of the system, and not of its start or of a queue that fills.

The runner judges a run by what its agents counted, and extends it once; the pipeline judges it by its events. A fixed
amount of work, a load of one side and a consumer with a rate of its own have no steady state by design: a queue fills
or empties from the first message to the last, and the study says how far. Faults and a rate that changes end a steady
state. They are not judged.
"""

from typing import Final

from mqlab.study.point import Point

# In the measure phase, arrivals differ from copies x sends by at most this share.
MAX_GAP: Final = 0.05


def is_judged(point: Point) -> bool:
    changes = bool(point.faults or point.profile)
    return point.messages is None and point.load == "both" and point.consume_rate is None and not changes
