"""The rows of the studies' feature matrix. Each row has a test of its name."""

import re
from typing import Final

FEATURES: Final = (
    "request/reply, requester waits for its reply",
    "continuous send, no reply",
    "point-to-point queue",
    "publish/subscribe topic",
    "one pair per destination, many pairs",
    "fan-out, one publisher to many subscribers",
    "many publishers and many subscribers on one topic",
    "competing consumers on one queue",
    "many senders to one receiver",
    "one queue pair shared by all clients",
    "many queues or queue managers",
    "send with no receiver; receive from a filled queue with no sender",
    "preloaded queue, unretrieved messages",
    "retrieval by correlation id against queue scan",
    "express / non-persistent / reliable delivery",
    "persistent / recoverable / guaranteed delivery",
    "durable subscription",
    "automatic acknowledgement",
    "DUPS_OK acknowledgement",
    "client acknowledgement",
    "transacted session, messages per transaction",
    "global transactions",
    "once-only delivery",
    "message selectors",
    "asynchronous receive (listener)",
    "queue prefetch",
    "JMS API",
    "native API, other clients (C, COM, SOAP)",
    "client connection against local bindings",
    "dependent against independent (storing) client",
    "distributed queueing between two queue managers",
    "clustering, high availability, failover, load balancing, encryption",
    "message id and timestamp suppression",
    "body size against full message size",
)

SETTINGS: Final = (
    'default ("out of the box") configuration',
    "vendor-recommended tuning",
    "message size",
    "number of producers, consumers or clients",
    "threads per client",
    "one connection per client",
    "FASTPATH binding, channel limits",
    "maximum client connections",
    "OS settings: application boost, auditing, paging file",
    "TCP frame and window size",
    "network speed, saturation",
    "queue limit in bytes or messages",
    "flow control of senders",
    "topic buffer sizes (OUTPUT_QUEUE_SIZE, GUAR_QUEUE_SIZE)",
    "save/retrieve extent (spill queue to disk)",
    "syncpoint, recovery log length",
    "JVM choice, JIT, garbage collection",
    "JVM heap",
    "disk write cache",
    "disk striping / RAID",
    "sync to disk on each persistent send",
    "group commit delay, several writes per sync",
    "journal file count",
    "throughput-oriented connection factory or broker file",
    "broker thread pools",
    "queue monitoring MONQ, channel monitoring MONCHL",
    "activity trace level",
    "activity trace scope by application stanza",
    "activity trace with default file",
    "activity trace read out to a file",
    "MQ trace (API level)",
    "MQ trace (internal)",
)

# Settings that are not the broker's, with the reason.
NOT_BROKER_SETTINGS: Final = {
    "vendor-recommended tuning": "a choice of settings, each of which has its own test",
    "threads per client": "how the lab makes load",
    "OS settings: application boost, auditing, paging file": "the operating system's",
    "TCP frame and window size": "the operating system's",
    "network speed, saturation": "the network's",
    "JVM choice, JIT, garbage collection": "there is no JVM",
    "JVM heap": "there is no JVM",
    "disk write cache": "the disk's",
    "disk striping / RAID": "the disk's",
    "broker thread pools": "messages are moved by one thread; there is no pool to size",
}


def test_name(row: str) -> str:
    """Return the name of the test of a row."""
    return "test_" + "_".join(re.findall(r"[a-z0-9_]+", row.lower()))
