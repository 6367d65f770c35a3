"""An example of the configuration file: every key with its default and its consequences."""

from typing import Final

EXAMPLE: Final = """\
# The configuration of a broker. Every key has its default here, so the file changes nothing until you edit it.
# Sizes are bytes, or have a unit: 64KiB (1024), 8MB (1000), 1GiB. Relative paths start at the folder of this file.

# ADDRESSES AND ACCESS
# The name of the broker for other brokers (queue:orders@NAME) and for programs in the same process (bindings:NAME).
name: none
# tcp:HOST:PORT (port 0: a free one), tls:HOST:PORT or unix:PATH. An address that other machines can reach needs
# users, or open_to_network.
listen: ["tcp:127.0.0.1:7766"]
# yes: other machines may connect without a password, and may do everything.
open_to_network: no
# A file of users, their hashed passwords and rights, made by `mqlab broker users`. none: every client may do all.
users: none
# Certificate chain and private key in PEM, both or neither: tls: addresses need them.
tls_certificate: none
tls_key: none
# Certificates, in PEM, of authorities: a client with a certificate of one of them can log in without a password (AMQP:
# SASL EXTERNAL) as the user that is the certificate's common name. It needs users. none: passwords alone.
tls_client_ca: none
# Origins of web pages that may connect (STOMP over WebSocket): [https://example.org]. A page can do what programs
# of its user can, so allow only pages that you trust. none: only programs that are not browsers, or whose origin is
# this broker itself, by its IP address or over TLS. As an option, repeated.
web_origins: none
# HOST:PORT of an HTTP endpoint with the counters, as JSON and for Prometheus. none: no endpoint.
metrics: none

# JOURNAL
# The folder of the journal. none: the broker refuses persistent messages.
data: none
# on: the broker confirms a persistent send after a sync. off: after the write to the operating system, so a power
# failure loses confirmed messages.
sync: on
# Microseconds by which group commit delays a sync, in addition to the delay that the broker chooses itself. More raises
# the rate of many producers on a slow disk and delays each of them.
group_delay: 0
# Simulate a rotating disk: a sync completes at the next of this many marks a second. 0: off.
disk_marks: 0
# Simulate a slow disk: a sync takes longer by the number of seconds in this file, which may change. For tests.
disk_delay: none
# The size of a journal file. The broker deletes smaller files sooner, and has more of them.
segment_size: 64MiB
# yes: allocate the disk space of a journal file at its beginning, so that a full disk is noticed before a write.
preallocate: yes
# Length of the journal above which a checkpoint repeats what is still needed of the oldest file, and deletes it. Less:
# quicker recovery and more rewriting.
log_length: 512MiB
# A file for all calls of the file layer with their times: for proofs, not for production.
file_trace: none

# MONITORING AND TRACES
# How many messages or batches are sampled for ages, rates and times on the queue: off, low (every 64th), medium (every
# 8th) or high (each). Counters are always on.
monitoring: low
# The activity trace of applications (connect, open, put, get, commit, close): off, low (times and sizes), medium
# (options and ids too) or high (headers and the first bytes of messages too). For applications that no stanza of
# trace_file matches.
trace: off
# Stanzas that choose applications; the first match decides. The broker reads the file again when it changes.
trace_file: none
# The file of the API trace: a line for each call of each application, in and out. It grows fast.
api_trace: none
# yes: the API trace also has what the core does for each call.
api_trace_internal: no

# OTHER BROKERS
# Local names of queues of other brokers, {orders: "queue:orders@B"}. Clients can only send to them, or use the full
# name queue:orders@B. As an option, repeated: orders=queue:orders@B.
remotes: none
# A channel to each other broker: messages wait on the transmission queue transmit.B until they have arrived, each
# exactly once. The broker needs a name for that. As an option, repeated: B=tcp:127.0.0.1:7766. With all keys: [{to: B,
# address: "tls:other:7766", user: me, password_file: secret, ca: ca.pem, batch: 1000, retry: 10}]; batch is the most
# messages of a batch, retry the longest pause in seconds between two attempts to connect.
channels: none

# MEMORY AND FLOW
# Size of all messages in memory above which producers of all queues wait for credit.
memory_limit: 1GiB
# The longest message with its headers, or batch (512KiB to 1GiB, and never more than memory_limit). A client that sends
# a longer one is disconnected. More lets large documents pass; each connection may then take that much memory.
max_message_size: 64MiB
# The credit of a producer, never more than queue_limit or an eighth of memory_limit. With too little it waits often.
producer_window: 4MiB
# Microseconds that the broker polls before it sleeps. More answers sooner where one message waits for another
# (request/reply, a producer that waits for each confirmation), and takes a whole core as long as messages come.
busy_wait: 0

# DEFAULT POLICY of destinations, unless a rule below matches
# Unacknowledged bytes of a queue or subscription at which it is full. More lets bursts pass, and delays the messages
# behind them.
queue_limit: 8MiB
# The same as a number of messages. 0: no such limit.
message_limit: 0
# At the limit: hold (producers wait), refuse (they get an error), or, for topics only, drop-oldest (a full subscription
# loses its oldest messages).
when_full: hold
# How much of a queue stays in memory; the broker pages out the rest. 0: no paging.
save_extent: 0
# indexed: a receive by correlation id or message id costs the same at any depth. scan: the broker searches the queue
# from its head each time, to show what that costs.
retrieval: indexed
# A message that was delivered redelivery_limit times (0: no limit) without acknowledgement goes to dead_letters.
redelivery_limit: 10
dead_letters: queue:dead-letters
# The queue for expired messages. none: the broker drops them.
expired: none
# Duplicate ids that the broker remembers: it confirms a second send with the same id and discards the message.
duplicate_window: 20000

# POLICIES BY PATTERN: the keys of the default policy for some destinations; * is one level, # at the end any number of
# levels. The first rule that matches decides.
policies: []
# policies:
#   - {match: "queue:orders.#", queue_limit: 64MiB, save_extent: 16MiB, expired: "queue:orders-expired"}
#   - {match: "topic:prices.*", message_limit: 1000, when_full: drop-oldest}
"""
