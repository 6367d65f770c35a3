"""Every limit of the broker in one place, each with its reason. Sizes are bytes, times seconds."""

from typing import Final

# Default of the setting `max_message_size`: a frame of the native protocol, which is one message with its headers, or
# one batch. The broker holds a frame in memory whole; a batch for throughput needs 256 KiB, a large document some MiB.
FRAME: Final = 64 * 1024 * 1024
# What the setting may be. Less has no room for the headers that STOMP allows. More does not fit into a record batch of
# Arrow, whose offsets have 31 bits, with room for copies; a record of the journal could have 4 GiB.
FRAME_LEAST: Final = 512 * 1024
FRAME_MOST: Final = 1024 * 1024 * 1024

# Before its HELLO a peer is a stranger: it gets room for the greeting and no more.
FRAME_BEFORE_HELLO: Final = 4 * 1024

# A peer that connects and stays silent holds a socket: a slow link needs less than a second for one frame.
HELLO_SECONDS: Final = 10.0

# Where the system lacks descriptors or memory for a new connection, the broker tries again after so long.
ACCEPT_PAUSE: Final = 1.0

# A client that vanished without a word (its machine or network is gone) holds its messages and its client id. The
# system asks a silent client after a minute, every 15 s, and ends the connection when five minutes have no answer.
# One that vanished while data was on its way to it is given up by the system after some 15 minutes. A client that is
# there and reads nothing stays connected: what it makes the broker hold is bounded.
KEEPALIVE_IDLE: Final = 60
KEEPALIVE_INTERVAL: Final = 15
KEEPALIVE_PROBES: Final = 16

# Days before the end of its TLS certificate in which a broker warns when it starts: time to get a new one.
CERTIFICATE_DAYS: Final = 30

# Names become keys and log lines, never paths; 255 is what file systems, JMS providers and AMQP allow.
NAME: Final = 255

# One connection serves a whole client process; beyond this something leaks links.
LINKS_A_CONNECTION: Final = 2048
SESSIONS_A_CONNECTION: Final = 1024
CONNECTIONS: Final = 4096

# A transaction lives in memory until its commit becomes one record of the journal.
TRANSACTION: Final = 64 * 1024 * 1024

# Sends in a transaction: its commit puts them on their queues in one step, some microseconds each. A batch is one, and
# so are messages that a producer sent one after the other and that the broker could put together.
TRANSACTION_SENDS: Final = 4096

# Open transactions are charged to the memory limit: those of one connection may take this part of it, and those of all
# connections that part. The rest is for messages on queues, which consumers take away: so producers never wait for
# memory that only their own commits would free.
TRANSACTIONS_OF_A_CONNECTION: Final = 4
TRANSACTIONS_OF_ALL: Final = 2
# But at least so many bytes, however little memory the broker may use: room for some messages of each.
TRANSACTIONS_LEAST: Final = 1024 * 1024
# Channels of other brokers may take so many bytes more: what a broker refuses becomes a dead letter of the other one,
# and a batch of a channel has 4 MiB, or one message of a FRAME.
TRANSACTIONS_OF_CHANNELS: Final = 64 * 1024 * 1024

# Memory of what a connection opens, as it was measured, with what the server holds of it: a session, a producer, a
# consumer, each character of its selector, a receive by id that waits, a temporary queue. The id of a receive has up
# to 1,024 characters: this counts each as a byte.
SESSION_BYTES: Final = 1024
PRODUCER_BYTES: Final = 512
CONSUMER_BYTES: Final = 2048
SELECTOR_BYTES: Final = 64
RECEIVE_BYTES: Final = 2048
TEMPORARY_QUEUE_BYTES: Final = 8 * 1024
# Receives are charged so many at a time: each is on the path of a request and its reply.
RECEIVES_CHARGED: Final = 16
# Bytes of it that come with the connection, which takes more by itself: each client can work, whatever others hold.
OPENED_FREE: Final = 64 * 1024
# The rest is charged to the memory limit. That of all connections together may take this part of it, but at least so
# many bytes, however little memory the broker may use.
OPENED_SHARE: Final = 4
OPENED_LEAST: Final = 4 * 1024 * 1024

# Prepared transactions wait for a decision, also after their client is gone; each has a name of up to 256 characters.
PREPARED: Final = 10_000

# Receives by id that wait for their message: each holds the id. A client has one for each request under way.
RECEIVES_A_CONNECTION: Final = 16_384
# Characters of such an id: a receive may wait for ever. Correlation ids are UUIDs, or names.
RECEIVE_ID: Final = 1024

# A temporary queue takes some KiB, and a client needs one for each of its requesters.
TEMPORARY_QUEUES_A_CONNECTION: Final = 1024

# Queues, topics and subscriptions of the broker: each takes some KiB and lasts longer than the client that named it.
DESTINATIONS: Final = 16_384

# A message to a topic goes to all its subscriptions in one step, some microseconds each; one with a selector takes as
# long as eight others, and counts like them.
SUBSCRIPTIONS_A_TOPIC: Final = 2048
SELECTOR_WEIGHT: Final = 8

# A message to a queue is tried by the selectors of its consumers in one step, up to 25 microseconds each with so many
# characters. One that is longer counts as several, of a queue's consumers as of a topic's subscriptions.
SELECTOR_PART: Final = 256
SELECTORS_A_QUEUE: Final = 256

# Producers send ahead on credit. All credit together is at most this part of the memory limit, and one producer has
# at most half of what is left of it; but at least so many bytes, for else it could send nothing.
CREDIT_SHARE: Final = 4
CREDIT_LEAST: Final = 4 * 1024

# Credit counts bytes that are sent: empty messages need none, small ones little of it and much memory, and a message
# may be longer than its producer's credit. With memory above the limit by this part of it, and by so many bytes,
# messages are refused.
OVERDRAFT_SHARE: Final = 2
OVERDRAFT_LEAST: Final = 1024 * 1024

# Groups of a queue whose consumer is remembered. Of more, those that were given to a consumer first are forgotten:
# their next message may go to another one.
GROUPS: Final = 65_536

# Channels go on where memory is full, since other brokers may be full of messages for this one. A client may pose as a
# channel: so all queues that channels feed together take at most this many times the memory limit.
CHANNEL_MEMORY: Final = 1

# A long frame is held until it has arrived whole, and only then counts as a message. Those of all connections together
# may take this part of the memory limit, or one of them alone as much as a frame may have.
UNFINISHED_SHARE: Final = 8

# Room for messages that a consumer may ask for: more than any batch, less than a run-away number.
PREFETCH: Final = 1_000_000

# A selector is read by the broker for its client: text for a hundred conditions, and no more.
SELECTOR: Final = 4 * 1024

# Brackets in brackets: the reader of selectors calls itself for each, eight calls deep, and Python allows 1,000.
SELECTOR_DEPTH: Final = 64

# `_` after a `%` in a pattern of LIKE: each may double the states in which the text is searched, up to a point
# where the time for one character grows from nanoseconds to microseconds.
LIKE_FLOATING: Final = 16

# One machine may run many clients, but not take every connection from all others.
CONNECTIONS_AN_ADDRESS: Final = 1024

# Names of users are keys, YAML and log text; 64 fits a mail address or a host's name.
USER_NAME: Final = 64

# Hashing a password costs by its length as well; the longest that password managers make are far shorter.
PASSWORD: Final = 1024
# What can be guessed in the end is the password: below this, all of them can be tried (in characters).
PASSWORD_LEAST: Final = 8

# The rights of a user are tried one after the other when a name is first used, and their answers are kept.
RIGHTS_A_USER: Final = 256
ANSWERS_A_USER: Final = 1024

# Failed logins of an address within a time after which the broker checks its passwords one at a time, one in so many
# seconds. Nobody is shut out: a user may share the address with an attacker. The answer to a wrong password is delayed,
# each time twice as long for the same user and address: a client that tries on and on slows itself to 11 a minute.
LOGIN_FAILURES: Final = 20
LOGIN_PAUSE: Final = 1.0
LOGIN_FAILURE_SECONDS: Final = 60.0
LOGIN_DELAY_LEAST: Final = 0.25
LOGIN_DELAY: Final = 8.0
# Addresses, and users at an address, whose failures are remembered: each costs memory.
FAILING_ADDRESSES: Final = 10_000

# Lines of the log a second about what clients cause: a client that is refused again and again must not fill the disk.
LOG_LINES_A_SECOND: Final = 10

# Files of settings and of users are short; room for some thousand users.
WRITTEN_FILE: Final = 1_000_000

# A transaction manager's name for a transaction: XA's has 128 bytes, in hexadecimal digits 256.
XID: Final = 256

# STOMP: headers of a frame, one of them, and all of them. Other brokers stop at 100 headers; a hundred of usual size
# need some KiB.
STOMP_HEADERS: Final = 100
STOMP_HEADER: Final = 8 * 1024
STOMP_HEAD: Final = 64 * 1024
# Room for headers beside the body of a message in a frame of the native protocol: the names of properties are longer
# there. A body over STOMP may have all but this of `max_message_size`.
STOMP_HEAD_ROOM: Final = 4 * STOMP_HEAD

# Milliseconds between heart-beats of STOMP, at the least: nobody learns much sooner, and each wakes both sides.
STOMP_HEART_BEAT: Final = 100

# Destinations to which a connection of STOMP sends at a time. Clients open and close none, so those not used for the
# longest time are closed when a new one is named.
STOMP_PRODUCERS: Final = 256

# The head of a request over HTTP, for the counters and for WebSocket: browsers send some KiB, with cookies more.
HTTP_HEAD: Final = 16 * 1024

# A message of WebSocket is handed on as it comes, so its length costs no memory. After the login it may have
# `max_message_size`, which holds any frame of STOMP. Before, a client has nothing to say that is longer than a few
# frames.
WEBSOCKET_BEFORE_HELLO: Final = 64 * 1024

# Nanoseconds of a turn of the event loop after which a connection's other frames, and the rest of long work, wait for
# the next turn: a client that waits for an answer waits for the turns of all connections that have something to do.
TURN_NS: Final = 1_000_000

# Messages, or batches, that long work in the core looks at in one slice, some microseconds each: what is left is done
# in a later turn of the event loop.
SLICE: Final = 1024

# Destinations that one answer lists, and whose rights are looked at for it. A client asks for those that follow.
LISTED: Final = 256
