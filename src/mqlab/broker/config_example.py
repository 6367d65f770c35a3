"""The configuration file as an example: every key with its default, and what follows from it."""

from typing import Final

EXAMPLE: Final = """\
# A broker's configuration. Every key stands here with its default, so the file changes nothing until you do.
# Sizes are bytes, or have a unit: 64KiB (1024), 8MB (1000), 1GiB. Relative paths start at the folder of this file.

# WHERE IT IS REACHED
# Its name for other brokers, which write queue:orders@NAME, and for programs in the same process (bindings:NAME).
name: none
# tcp:HOST:PORT (port 0: a free one), tls:HOST:PORT or unix:PATH. An address that other machines can reach needs
# users, or open_to_network.
listen: ["tcp:127.0.0.1:7766"]
# yes: other machines may connect although nobody is asked for a password. They can then do everything.
open_to_network: no
# A file of users, their hashed passwords and rights, made by `mqlab broker users`. none: everybody may do everything.
users: none
# Certificate chain and private key in PEM, both or neither: tls: addresses need them.
tls_certificate: none
tls_key: none
# Web pages that may connect (STOMP over WebSocket), by their origin as browsers say it: [https://example.org:8443]. A
# page can do what its user's programs can, so no page of anybody else may. none: no page may, only programs that are no
# browsers, or that name this broker itself as the origin, by its number, or over TLS. As an option, repeated.
web_origins: none
# HOST:PORT of an HTTP endpoint with the counters, as JSON and for Prometheus. none: no endpoint.
metrics: none

# WHAT IS KEPT ON DISK
# The folder of persistent messages. none: a persistent send is refused.
data: none
# on: a persistent send is confirmed when the disk has it. off: when the operating system has it, so a power failure
# loses confirmed messages.
sync: on
# Microseconds that a sync waits for others to join it, on top of what the broker finds worth while. More raises the
# rate of many producers on a slow disk and delays each of them.
group_delay: 0
# Imitate a turning disk: a sync completes at the next of so many marks a second. 0: the disk as it is.
disk_marks: 0
# A journal file is closed at this size. Smaller ones are removed sooner, and there are more of them.
segment_size: 64MiB
# yes: the disk space of a journal file is taken when it is begun, so that a full disk is noticed before a write.
preallocate: yes
# Length of the journal above which what is still needed of its oldest file is written again at its end. Less: a
# quicker start after a crash, and more rewriting.
log_length: 512MiB
# A file that gets every call of the file layer with its time: for proofs, not for production.
file_trace: none

# WHAT IS WATCHED
# How closely queues and channels are watched beside the counters that are always on: ages, rates, times on the queue.
# off, low (every 64th message or batch), medium (every 8th) or high (each).
monitoring: low
# What is recorded of what applications do (connect, open, put, get, commit, close): off, low (times and sizes), medium
# (options and ids too) or high (headers and the first bytes of messages too). For those that no stanza of trace_file
# is about.
trace: off
# Stanzas that say which applications are traced, the first that matches decides; read again when it has changed.
trace_file: none
# A file that gets every call of every application, in and out. It grows fast.
api_trace: none
# yes: what the core does for each call is in it too.
api_trace_internal: no

# OTHER BROKERS
# Names here that stand for queues of other brokers, {orders: "queue:orders@B"}. They can only be sent to. The queue of
# another broker can be named as it is, too. As an option, repeated: orders=queue:orders@B.
remotes: none
# A channel to each of them: what is sent there is kept on the queue transmit.B until it has arrived, each message
# once. This broker needs a name for that. As an option, repeated: B=tcp:127.0.0.1:7766. With all it can say: [{to: B,
# address: "tls:other:7766", user: me, password_file: secret, ca: ca.pem, batch: 1000, retry: 10}]; batch is the most
# messages that go together, retry the longest pause in seconds between two tries to connect.
channels: none

# MEMORY AND FLOW
# All messages in memory above which producers are held back, whatever their queue.
memory_limit: 1GiB
# The longest message with its headers, or batch (512KiB to 1GiB, and never more than memory_limit). A client that sends
# a longer one is disconnected. More lets large documents pass; each connection may then take that much memory.
max_message_size: 64MiB
# What a producer may send ahead of the broker, never more than queue_limit or an eighth of memory_limit. Too little
# starves it.
producer_window: 4MiB
# Microseconds that the broker goes on looking for what comes next before it sleeps. More answers sooner where one
# message waits for another (request/reply, a sender that waits for each confirmation), and takes a whole core as long
# as messages come.
busy_wait: 0

# EVERY DESTINATION, unless a rule below says otherwise
# Unacknowledged bytes of a queue or subscription at which it is full. More lets bursts pass, and delays the messages
# behind them.
queue_limit: 8MiB
# The same as a number of messages. 0: no such limit.
message_limit: 0
# At the limit: hold (producers wait), refuse (they get an error), or, for topics only, drop-oldest (the subscription
# that is full forgets its oldest messages: they are lost to it).
when_full: hold
# What stays in memory of a queue; the rest of it waits on disk, in order. 0: all of it stays in memory.
save_extent: 0
# indexed: a receive by correlation id or message id costs the same at any depth. scan: the queue is searched from its
# head each time, to show what that costs.
retrieval: indexed
# Deliveries in vain after which a message goes to dead_letters. 0: it is delivered again without end.
redelivery_limit: 10
dead_letters: queue:dead-letters
# The queue that expired messages go to. none: they are dropped.
expired: none
# Ids given by producers that are remembered: a second send of one of them is confirmed and forgotten.
duplicate_window: 20000

# SOME DESTINATIONS: the keys of the part above by pattern; * is one level, # at the end any number of them. The first
# rule that matches decides.
policies: []
# policies:
#   - {match: "queue:orders.#", queue_limit: 64MiB, save_extent: 16MiB, expired: "queue:orders-expired"}
#   - {match: "topic:prices.*", message_limit: 1000, when_full: drop-oldest}
"""
