"""Every limit of the broker in one place, each with its reason. Sizes are bytes, times seconds."""

from typing import Final

# A frame is held in memory whole; a batch for throughput needs 256 KiB, a large document some MiB.
FRAME: Final = 16 * 1024 * 1024

# Before its HELLO a peer is a stranger: it gets room for the greeting and no more.
FRAME_BEFORE_HELLO: Final = 4 * 1024

# A peer that connects and stays silent holds a socket: a slow link needs less than a second for one frame.
HELLO_SECONDS: Final = 10.0

# Names become keys and log lines, never paths; 255 is what file systems, JMS providers and AMQP allow.
NAME: Final = 255

# One connection serves a whole client process; beyond this something leaks links.
LINKS_A_CONNECTION: Final = 4096
SESSIONS_A_CONNECTION: Final = 1024
CONNECTIONS: Final = 4096

# A transaction lives in memory until its commit becomes one record of the journal.
TRANSACTION: Final = 64 * 1024 * 1024

# Room for messages that a consumer may ask for: more than any batch, less than a run-away number.
PREFETCH: Final = 1_000_000
