"""Slots of time, delivery classes and codes of operations, by which columns and SQL count events.

Tasks import this module, so it needs no package but the standard library.
"""

from typing import Final

NANOSECONDS: Final = 1_000_000_000
# As fine as the samples: charts over time show both.
SLOTS_A_SECOND: Final = 5
SLOT: Final = NANOSECONDS // SLOTS_A_SECOND

# Latencies over time: the most slots of a run, each of some whole SLOTs; and the buckets of the fine histogram that
# are one here, so that about eight are a decade.
MOST_LATENCY_SLOTS: Final = 100
COARSE_BUCKETS: Final = 152
# Operations: the same for their durations, so that a percentile is exact to 1 %. Traces have many kinds of operations,
# whose durations spread over thousands of fine buckets.
OPERATION_BUCKETS: Final = 5

# The delivery classes of an audit. A message counts once for each subscription, in every class that it belongs to.
DELIVERY_CLASSES: Final = (
    "delivered", "lost", "resent", "duplicated", "duplicated_resent", "duplicated_marked", "recovered", "out_of_order",
    "unexpected",
)  # fmt: skip
# The codes of operations that succeeded.
SUCCESS_CODES: Final = ("", "0", "ok")
