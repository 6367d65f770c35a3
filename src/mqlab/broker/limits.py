"""Every limit of the broker in one place, each with its reason. Sizes are bytes, times seconds."""

from typing import Final

# Default of the setting `max_message_size`: a frame of the native protocol, which is one message with its headers, or
# one batch. The broker holds a whole frame in memory; a batch for throughput needs 256 KiB, a large document some MiB.
FRAME: Final = 64 * 1024 * 1024
# Bounds of the setting. Less has no room for the headers that STOMP allows. More does not fit into a record batch of
# Arrow, whose offsets have 31 bits, with room for copies; a record of the journal could have 4 GiB.
FRAME_LEAST: Final = 512 * 1024
FRAME_MOST: Final = 1024 * 1024 * 1024

# Before its login a client may send HELLO and no more.
FRAME_BEFORE_HELLO: Final = 4 * 1024

# The time to log in: a client that connects and sends nothing holds a socket. A slow network needs less than a second.
HELLO_SECONDS: Final = 10.0

# If the system lacks descriptors or memory for a new connection, the broker tries again after this time.
ACCEPT_PAUSE: Final = 1.0

# A client whose machine or network has failed holds its messages and its client id. The system probes a silent client
# after a minute, every 15 s, and ends the connection after five minutes without an answer; with data under way, after
# some 15 minutes. A client that is alive and reads nothing stays connected: the memory that it takes is limited.
KEEPALIVE_IDLE: Final = 60
KEEPALIVE_INTERVAL: Final = 15
KEEPALIVE_PROBES: Final = 16

# A broker warns at its start when its TLS certificate expires within this many days.
CERTIFICATE_DAYS: Final = 30

# Names become keys and log lines, never paths; 255 is what file systems, JMS providers and AMQP allow.
NAME: Final = 255

# One connection serves a whole client process; a client that needs more leaks links.
LINKS_A_CONNECTION: Final = 2048
SESSIONS_A_CONNECTION: Final = 1024
CONNECTIONS: Final = 4096

# Bytes of a transaction: it is in memory until its commit becomes one record of the journal.
TRANSACTION: Final = 64 * 1024 * 1024

# Sends in a transaction: its commit puts them on their queues in one turn, some microseconds each. A batch counts as
# one, and so do single messages that the broker has coalesced.
TRANSACTION_SENDS: Final = 4096

# Open transactions count against the memory limit: those of one connection may take a quarter of it, those of all
# connections half. The rest is for messages on queues, which consumers remove: so producers never wait for memory that
# only their own commits would free.
TRANSACTIONS_OF_A_CONNECTION: Final = 4
TRANSACTIONS_OF_ALL: Final = 2
# But at least this many bytes, however low the memory limit is.
TRANSACTIONS_LEAST: Final = 1024 * 1024
# Channels of other brokers may take this many bytes more: a refused message becomes a dead letter at its broker, and a
# batch of a channel has 4 MiB, or one message of a FRAME.
TRANSACTIONS_OF_CHANNELS: Final = 64 * 1024 * 1024

# Measured memory, in core and server, of what a connection opens: a session, a producer, a consumer, each character of
# a selector, a waiting receive by id (its id has up to 1,024 characters, counted as bytes), a temporary queue.
SESSION_BYTES: Final = 1024
PRODUCER_BYTES: Final = 512
CONSUMER_BYTES: Final = 2048
SELECTOR_BYTES: Final = 64
RECEIVE_BYTES: Final = 2048
TEMPORARY_QUEUE_BYTES: Final = 8 * 1024
# Receives are charged this many at a time, since each is on the hot path of request/reply.
RECEIVES_CHARGED: Final = 16
# Bytes that every connection may open without being charged, so that each client can work.
OPENED_FREE: Final = 64 * 1024
# The rest counts against the memory limit: all connections together may take a quarter of it. When memory is full,
# they may take a 32nd part: enough for the consumers that make room, and the broker grows little beyond its limit. Each
# is at least this many bytes.
OPENED_SHARE: Final = 4
OPENED_WHEN_FULL_SHARE: Final = 32
OPENED_LEAST: Final = 4 * 1024 * 1024

# Memory of one queue of dead letters: this part of the memory limit, but at least so many bytes. No producer waits for
# it, so that it could fill the memory for ever. Above, messages stay in their queues, and come again.
DEAD_LETTERS_SHARE: Final = 4
DEAD_LETTERS_LEAST: Final = 1024 * 1024

# Prepared transactions wait for a decision, also after their client has disconnected.
PREPARED: Final = 10_000

# Receives by id that wait: each holds the id. A client has one for each request under way.
RECEIVES_A_CONNECTION: Final = 16_384
# Characters of such an id, since a receive may wait without end. Correlation ids are UUIDs or names.
RECEIVE_ID: Final = 1024

# A temporary queue takes some KiB; a client needs one for each of its requesters.
TEMPORARY_QUEUES_A_CONNECTION: Final = 1024

# Queues, topics and subscriptions of the broker: each takes some KiB and outlives the client that created it.
DESTINATIONS: Final = 16_384

# A message to a topic goes to all its subscriptions in one turn, some microseconds each. A subscription with a selector
# takes as long as eight others, and counts as eight.
SUBSCRIPTIONS_A_TOPIC: Final = 2048
SELECTOR_WEIGHT: Final = 8

# The broker evaluates all selectors of a queue's consumers for a message in one turn, up to 25 microseconds for each
# part of this many characters. A longer selector counts as several, also of a topic's subscriptions.
SELECTOR_PART: Final = 256
SELECTORS_A_QUEUE: Final = 256

# All credit of producers together is at most a quarter of the memory limit. One producer has at most half of what is
# left of it, but at least this many bytes.
CREDIT_SHARE: Final = 4
CREDIT_LEAST: Final = 4 * 1024

# Credit counts bytes on the wire, but small messages take more memory, and a message may overdraw the credit. The
# broker refuses messages when memory is above its limit by half of it, and by this many bytes.
OVERDRAFT_SHARE: Final = 2
OVERDRAFT_LEAST: Final = 1024 * 1024

# The messages of one topic, counted for each of its subscriptions, may take as much memory as is left for all others,
# but at least so many bytes; then its producers wait. Credit that they have left may take three times what is left: a
# quarter of the memory limit is not theirs.
TOPIC_LEAST: Final = 64 * 1024
TOPIC_OVERDRAFT: Final = 3

# Memory that the core does not count (fragments of the heap, buffers of connections, credit that producers have left)
# may take an eighth of the memory limit, and this many bytes at least. The rest holds producers back as messages do,
# while those on queues take more than a quarter of the limit: consumers can always free the memory that producers need.
UNCOUNTED_SHARE: Final = 8
UNCOUNTED_LEAST: Final = 16 * 1024 * 1024
UNCOUNTED_BESIDE: Final = 4

# Message groups of a queue whose consumer the broker remembers. Above, it forgets the oldest groups: their next message
# may go to another consumer.
GROUPS: Final = 65_536

# A broker with full memory accepts messages of channels, since other brokers may be full of messages for it. A client
# may pose as a channel: so all queues that channels feed may take this many times the memory limit together.
CHANNEL_MEMORY: Final = 1

# A long frame counts as a message only when it has arrived completely. The incomplete frames of all connections may
# take an eighth of the memory limit together; one frame alone may take as much as the frame limit.
UNFINISHED_SHARE: Final = 8

# The most credit of a consumer in messages: more than any batch, less than a number by mistake.
PREFETCH: Final = 1_000_000

# Bytes of a selector: enough for a hundred conditions.
SELECTOR: Final = 4 * 1024

# Nested brackets of a selector: the parser recurses eight calls deep for each, and Python allows 1,000.
SELECTOR_DEPTH: Final = 64

# `_` after a `%` in a LIKE pattern: each may double the states of the search, so that the time for one character would
# grow from nanoseconds to microseconds.
LIKE_FLOATING: Final = 16

# One machine may run many clients, but must not take all connections.
CONNECTIONS_AN_ADDRESS: Final = 1024

# Characters of a user name: enough for a mail address or a host name.
USER_NAME: Final = 64

# Bytes of a password: hashing takes longer for a long one, and password managers make far shorter ones.
PASSWORD: Final = 1024
# Characters of a new password: an attacker could try all shorter ones.
PASSWORD_LEAST: Final = 8

# The broker checks the rights of a user one after the other at the first use of a destination, and caches the results.
RIGHTS_A_USER: Final = 256
ANSWERS_A_USER: Final = 1024

# After this many failed logins within a time, the broker checks passwords from the address one at a time, with a pause.
# It never blocks an address: a user may share it with an attacker. It delays the answer to a wrong password, each time
# twice as long for the same user and address: a client that goes on trying gets 11 answers a minute.
LOGIN_FAILURES: Final = 20
LOGIN_PAUSE: Final = 1.0
LOGIN_FAILURE_SECONDS: Final = 60.0
LOGIN_DELAY_LEAST: Final = 0.25
LOGIN_DELAY: Final = 8.0
# Addresses, and users at an address, whose failures the broker remembers: each costs memory.
FAILING_ADDRESSES: Final = 10_000

# Log lines a second about events that clients cause: a client must not be able to fill the disk.
LOG_LINES_A_SECOND: Final = 10

# Bytes of a file of settings or users: enough for some thousand users.
WRITTEN_FILE: Final = 1_000_000

# Characters of a transaction id: an XA id has 128 bytes, which are 256 hexadecimal digits.
XID: Final = 256

# STOMP: the number of headers of a frame, bytes of one header, and bytes of all headers. Other brokers stop at 100
# headers; a hundred of usual size need some KiB.
STOMP_HEADERS: Final = 100
STOMP_HEADER: Final = 8 * 1024
STOMP_HEAD: Final = 64 * 1024
# Room for headers in a native frame, where the names of properties are longer. The body of a STOMP message may have
# `max_message_size` less this.
STOMP_HEAD_ROOM: Final = 4 * STOMP_HEAD

# The shortest interval of STOMP heart-beats in milliseconds: each wakes both sides.
STOMP_HEART_BEAT: Final = 100

# Producers of a STOMP or MQTT connection. Clients cannot open or close them, so the least recently used one is closed.
ADAPTER_PRODUCERS: Final = 256

# AMQP: messages for which a sending link has credit, transfers that a session accepts before it hears more, and the
# bytes of a frame. Messages beyond the credit in bytes of their producer wait; above so many bytes of them, reading
# pauses, since the client may not know how much it has sent.
AMQP_CREDIT: Final = 1000
AMQP_WINDOW: Final = 65_536
AMQP_FRAME: Final = 128 * 1024
AMQP_WAITING: Final = 4 * 1024 * 1024
# Bytes of messages that wait for the window of an AMQP session: above, its links get no more from their queues.
AMQP_UNSENT: Final = 64 * 1024
# Sessions of an AMQP connection, and links of a session; all of its sessions have LINKS_A_CONNECTION together.
AMQP_SESSIONS: Final = 256
AMQP_LINKS: Final = 1024
# Seconds of silence after which an AMQP client counts as gone, and the shortest that a client may ask for.
AMQP_IDLE: Final = 120.0
AMQP_IDLE_LEAST: Final = 0.1
# Bytes that the sections of an AMQP message beside its body may take in a native frame.
AMQP_SECTIONS_ROOM: Final = 256 * 1024

# MQTT: bytes of CONNECT, which may have a will.
MQTT_CONNECT: Final = 16 * 1024
# Room for headers in a native frame, where the names of properties are longer.
MQTT_HEAD_ROOM: Final = 256 * 1024
# Messages with QoS 1 and 2 that the broker has not acknowledged to a client, and the other way round.
MQTT_RECEIVE_MAXIMUM: Final = 8192
# Messages of one subscription under way to a client: enough for a fast client, and little memory for a slow one.
MQTT_PREFETCH: Final = 1000
# Topics that a client may name by a number, and the broker to a client: each costs the memory of its name.
MQTT_TOPIC_ALIASES: Final = 64
# The longest keep alive in seconds that a client may ask for: a client that is gone holds its client id until then.
MQTT_KEEP_ALIVE: Final = 3600
# Subscriptions of a session: each has a queue.
MQTT_SUBSCRIPTIONS: Final = 1024
# Memory of retained messages and sessions: this part of the memory limit each.
MQTT_STATE_SHARE: Final = 8
# Seconds between two messages of the broker to a topic of $SYS.
MQTT_SYS_SECONDS: Final = 10.0

# Bytes of the head of an HTTP request, for metrics and WebSocket: browsers send some KiB, with cookies more.
HTTP_HEAD: Final = 16 * 1024

# Bytes of a WebSocket message before the login. After it a message may have `max_message_size`, which holds any STOMP
# frame. The broker passes data on as it arrives, so a long message costs no memory.
WEBSOCKET_BEFORE_HELLO: Final = 64 * 1024

# Nanoseconds of a turn of the event loop after which other frames of a connection, and other slices of long work, wait
# for the next turn: a client that waits for an answer waits for the turns of all busy connections.
TURN_NS: Final = 1_000_000
# A client may use one part in so many of the loop's time before its frames wait for those of other clients.
TIME_SHARE: Final = 8

# Messages or batches that long work of the core handles in one slice, some microseconds each.
SLICE: Final = 1024

# Destinations in one page of a list, whose rights the broker checks in one turn.
LISTED: Final = 256
