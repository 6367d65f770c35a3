"""Strategies for commands to the core: a command by its name, with numbers that choose the client."""

from pathlib import Path

from hypothesis import strategies as st

from mqlab.broker.core.model.messages import FOOTPRINT
from mqlab.broker.policy import Policies, PolicyRule
from mqlab.broker.settings import Settings

from .model_parts import SELECTORS, Wanted

# So small that queues and the broker get full within a few sends. (A batch with columns has some 700 bytes before any
# body.) What two queues and the topic do differently is in their policies.
SMALL = Settings.flat(
    data=Path("unused"), queue_limit=2500, memory_limit=4000 + 12 * FOOTPRINT, producer_window=1500, redelivery_limit=2,
    policies=Policies((
        PolicyRule("queue:b", {"retrieval": "scan", "expired": "queue:late"}),
        PolicyRule("topic:#", {"redelivery_limit": 0}),
    )),
)  # fmt: skip
# One queue more often than the others: competition is where order can go wrong.
SENT_TO = ("queue:a", "queue:a", "queue:b", "topic:t")
RECEIVED_FROM = (*SENT_TO, "queue:a", "topic:*", "queue:dead-letters", "queue:late")
# Durable subscriptions of one client: their names, and what they choose.
DURABLE = {"all": "", "some": "kind = 0"}
CLIENT = "client"

# What messages can be like, the plain ones first.
WANTED = [
    Wanted(size, kind, key, priority, delay, life)
    for delay, life in ((0, 0), (0, 0), (5, 0), (0, 5), (0, 12), (5, 3))
    for priority in (None, 9, 1) for key in (None, "x", "y") for kind in (None, 0, 1, 2) for size in (0, 40)
]  # fmt: skip

which, amount, share = st.integers(0, 100), st.integers(0, 6), st.floats(0, 1)
selector = st.sampled_from(["", *SELECTORS])
key = st.sampled_from(["x", "y"])
messages = st.lists(st.integers(0, len(WANTED) - 1), min_size=1, max_size=4)
send = st.tuples(st.just("send"), which, messages, st.booleans(), st.booleans())
acknowledge = st.tuples(st.just("acknowledge"), which, share, amount)
single = st.tuples(st.just("acknowledge_rows"), which, which, st.integers(1, 3))
receive = st.tuples(st.just("receive"), which, key)
durable = st.tuples(st.just("durable"), share)
tick = st.tuples(st.just("tick"), st.sampled_from([1, 3, 6, 15]))
commit = st.tuples(st.sampled_from(["commit", "commit", "prepare"]), which)
rollback = st.tuples(st.just("rollback"), which, amount)
decide = st.tuples(st.just("decide"), which, st.booleans())
pause = st.tuples(st.sampled_from(["pause", "resume", "resume", "cancel"]), which)
back = st.tuples(st.just("take_back"), which, share, amount)
traffic = st.one_of(
    send, send, send, send, send, send, acknowledge, acknowledge, acknowledge, single, receive, receive, durable,
    durable, tick, commit, rollback, decide, pause, back,
)  # fmt: skip
commands = st.lists(traffic, min_size=4, max_size=12)
