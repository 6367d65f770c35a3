"""The state that outlives MQTT connections: sessions, retained messages and wills. The journal keeps it."""

import asyncio
import json
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from time import time
from typing import Final

from mqlab import __version__
from mqlab.broker import limits
from mqlab.broker.core.admin import totals
from mqlab.broker.core.errors import CommandError
from mqlab.broker.core.flow import OverdrawnError
from mqlab.broker.core.model.sessions import CoreSession
from mqlab.broker.core.routing.remote_queues import MQTT_STATE
from mqlab.broker.server.channels.host import ChannelHost
from mqlab.broker.server.mqtt.durable_map import DurableMap, Then
from mqlab.broker.server.mqtt.messages import QOS, RETAIN, encode_message
from mqlab.broker.server.mqtt.retained import RetainedMessage, RetainedMessages
from mqlab.broker.server.mqtt.session import FOREVER, MqttSession, SessionConnection, Will
from mqlab.broker.server.mqtt.topics import SYS, TopicFilter, destination_of, parse_filter
from mqlab.wire.mqtt.reasons import MqttViolationError, Reason

_SHARED_SUBSCRIPTIONS: Final = "mqtt:$share/"
_LONGEST_TIMER_S: Final = 86_400.0
_TOKEN_BYTES: Final = 12


class MqttState:
    """`connections`: how many clients are connected now, of all protocols."""

    def __init__(self, broker: ChannelHost, connections: Callable[[], int]) -> None:
        self._broker, self._core = broker, broker.core
        self._connections = connections
        self._started_s = time()
        self._sessions: dict[str, MqttSession] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._map: DurableMap | None = None
        self._retained: RetainedMessages | None = None
        self._publisher: CoreSession | None = None
        self._links = 0
        self._is_closed = False
        self._sys_timer: asyncio.TimerHandle | None = None

    # Start and end

    def start(self) -> None:
        """Restore the state from before a restart, if there is any."""
        if any(name.startswith(MQTT_STATE) for name in self._core.destinations.queues):
            self.open()

    def open(self) -> None:
        """Open the queues of the state; the first MQTT client does so."""
        if self._map is not None or self._is_closed:
            return
        self._broker.update_clock()
        self._retained = RetainedMessages(self._broker)
        self._map = DurableMap(self._broker, "mqtt.sessions")
        self._restore()

    def close(self) -> None:
        self._is_closed = True
        for timer in self._timers.values():
            timer.cancel()
        if self._sys_timer is not None:
            self._sys_timer.cancel()

    def _restore(self) -> None:
        now_ms = self._core.context.now_ms
        # Sessions come first, since the others belong to one.
        for key, entry in sorted(self._stored.items(), key=lambda item: not item[0].startswith("session:")):
            kind, _, rest = key.partition(":")
            try:
                if kind == "session":
                    session = MqttSession.read(json.loads(entry.body))
                    session.ended_ms = session.ended_ms or now_ms
                    self._sessions[session.key] = session
                    continue
                owner, _, number = rest.rpartition(":")
                known = self._sessions.get(owner)
                if known is None:
                    self._stored.remove(key)
                elif kind == "received":
                    known.received[int(number)] = entry.body.decode()
                else:
                    written, message_id = json.loads(entry.body)
                    known.released[int(number)] = str(written), int(message_id)
            except (KeyError, TypeError, ValueError):
                # A client of another protocol has put it on the queue.
                self._stored.remove(key)
        for session in [*self._sessions.values()]:
            self._schedule_end(session)
        self._delete_unused_shares()

    @property
    def _stored(self) -> DurableMap:
        assert self._map is not None
        return self._map

    @property
    def retained(self) -> RetainedMessages:
        assert self._retained is not None
        return self._retained

    # Sessions

    def attach(
        self, user: str, client: str, connection: SessionConnection, *, clean_start: bool, expiry_s: int,
        will: Will | None,
    ) -> tuple[MqttSession, bool]:  # fmt: skip
        """The session of a client that has connected, and whether it existed before.

        Raises MqttViolationError if there is no memory for a session, or a will, that is kept.
        """
        fresh = MqttSession(client, user, expiry_s)
        session = self._sessions.get(fresh.key)
        if expiry_s and (will is not None or session is None or not session.durable) and not self.has_room:
            raise MqttViolationError(Reason.QUOTA_EXCEEDED, "the sessions take all the memory that they may")
        if session is not None and clean_start:
            self.end(session)
            session = None
        present = session is not None
        if session is None:
            session = self._sessions[fresh.key] = fresh
        timer = self._timers.pop(session.key, None)
        if timer is not None:
            timer.cancel()
        was_durable = session.durable
        session.expiry_s, session.will, session.connection, session.ended_ms = expiry_s, will, connection, 0
        if session.durable or was_durable:
            self.save(session)
        return session, present

    @property
    def has_room(self) -> bool:
        """Whether the sessions may take more memory."""
        return self._stored.charged_bytes <= self._broker.settings.memory_limit // limits.MQTT_STATE_SHARE

    def save(self, session: MqttSession, then: Then | None = None) -> None:
        """Store what a restart must restore. `then`: it is durable."""
        if session.durable:
            self._stored.put(f"session:{session.key}", session.document(), then=then)
        elif then is not None:
            then()

    def detach(self, session: MqttSession, connection: SessionConnection) -> None:
        """The connection of a session has ended. Without a normal end the session still has its will."""
        if session.connection is not connection:
            return
        self._broker.update_clock()
        session.connection = None
        session.ended_ms = self._core.context.now_ms
        if not session.durable:
            self.end(session)
            return
        if session.will is not None and not session.will.delay_s and not self._is_closed:
            # Now: the client may have connected again already, maybe with another will.
            self._publish_will(session)
        self.save(session)
        self._schedule_end(session)

    def end(self, session: MqttSession) -> None:
        """Delete a session with its subscriptions. A will that waits is published now."""
        self._sessions.pop(session.key, None)
        timer = self._timers.pop(session.key, None)
        if timer is not None:
            timer.cancel()
        self._publish_will(session)
        for written in [*session.subscriptions]:
            self.delete_subscription(session, written)
        for number in [*session.received]:
            self.forget_received(session, number)
        for number in [*session.released]:
            self.forget_released(session, number)
        self._stored.remove(f"session:{session.key}")

    def delete_subscription(self, session: MqttSession, written: str, then: Then | None = None) -> None:
        """Delete a subscription of a session that has no consumer any more. A shared one ends with its last session."""
        del session.subscriptions[written]
        topic_filter, since = parse_filter(written), self._core.records.lsn
        client = "" if topic_filter.group else session.client
        is_shared_still = topic_filter.group and any(
            written in other.subscriptions and other.user == session.user for other in self._sessions.values()
        )
        self._broker.update_clock()
        if not is_shared_still:
            # Unless it was not durable, or an administrator has deleted it.
            with suppress(CommandError):
                self._core.unsubscribe(client, subscription_name(topic_filter), session.user)
        if then is not None:
            self._core.records.run_when_all_durable(since, self, then)
        self._broker.run_effects()

    def _delete_unused_shares(self) -> None:
        """After a crash: shared subscriptions of sessions that ended with it."""
        names = {
            (session.user, f"mqtt:{written}")
            for session in self._sessions.values() for written in session.subscriptions
        }  # fmt: skip
        for queue in [*self._core.destinations.routing.durable.values()]:
            terms = queue.subscription.terms if queue.subscription is not None else None
            short = queue.name.rpartition("/")[2].replace("%2F", "/").replace("%25", "%")
            if terms is None or not terms.shared or not short.startswith(_SHARED_SUBSCRIPTIONS):
                continue
            if (terms.user, short) not in names and not queue.consumers:
                self._core.removal.delete(queue)
        self._broker.run_effects()

    def _schedule_end(self, session: MqttSession) -> None:
        """Publish its will and end the session when it is time."""
        now_ms, dues_s = self._core.context.now_ms, []
        if session.will is not None:
            dues_s.append((session.ended_ms - now_ms) / 1000 + session.will.delay_s)
        if session.expiry_s != FOREVER:
            dues_s.append((session.ended_ms - now_ms) / 1000 + session.expiry_s)
        if dues_s and not self._is_closed:
            seconds = min(_LONGEST_TIMER_S, max(0.0, min(dues_s)))
            loop = asyncio.get_running_loop()
            self._timers[session.key] = loop.call_later(seconds, self._session_due, session)

    def reschedule(self) -> None:
        """The clock was set: sessions and wills end by it."""
        for key in [*self._timers]:
            self._timers.pop(key).cancel()
            self._schedule_end(self._sessions[key])

    def _session_due(self, session: MqttSession) -> None:
        self._timers.pop(session.key, None)
        self._broker.update_clock()
        gone_s = (self._core.context.now_ms - session.ended_ms) / 1000
        if session.expiry_s != FOREVER and gone_s >= session.expiry_s:
            self.end(session)
        else:
            if session.will is not None and gone_s >= session.will.delay_s:
                self._publish_will(session)
                self.save(session)
            self._schedule_end(session)
        self._broker.run_effects()

    # Packets with QoS 2

    def receive(self, session: MqttSession, number: int) -> str:
        """Remember the packet id of a message from the client. Returns its duplicate id."""
        token = f"mqtt-{secrets.token_hex(_TOKEN_BYTES)}"
        session.received[number] = token
        if session.durable:
            self._stored.put(f"received:{session.key}:{number}", token.encode())
        return token

    def forget_received(self, session: MqttSession, number: int, then: Then | None = None) -> None:
        session.received.pop(number, None)
        self._stored.remove(f"received:{session.key}:{number}", then)

    def release(self, session: MqttSession, number: int, written: str, message_id: int, then: Then) -> None:
        """Remember the packet id of a message that the client has received. `then`: it is durable."""
        session.released[number] = written, message_id
        if session.durable:
            document = json.dumps([written, message_id]).encode()
            self._stored.put(f"released:{session.key}:{number}", document, then=then)
        else:
            then()

    def forget_released(self, session: MqttSession, number: int) -> None:
        if session.released.pop(number, None) is not None:
            self._stored.remove(f"released:{session.key}:{number}")

    # Messages of the broker itself

    def _publish_will(self, session: MqttSession) -> None:
        will, session.will = session.will, None
        if will is not None:
            has_store = self._core.destinations.has_store
            fields = {**will.fields}
            if will.qos == 2 or (will.qos and not has_store):
                fields[QOS] = will.qos
            if will.retain:
                self.retained.retain(will.destination, will.body, {**fields, QOS: will.qos})
                fields[RETAIN] = True
            self._publish(will.destination, will.body, fields, persistent=will.qos > 0 and has_store)

    def _publish(self, destination: str, body: bytes, fields: dict[str, object], *, persistent: bool) -> None:
        self._broker.update_clock()
        try:
            if self._publisher is None:
                self._publisher = self._core.open_session(self, 1, transacted=False)
            self._links += 1
            producer = self._core.open_producer(self._publisher, self._links, destination)
            try:
                self._core.send(producer, encode_message(body, fields), 1, persistent=persistent, confirm=False)
            finally:
                self._core.close_producer(producer)
        except (CommandError, OverdrawnError):
            # The destination is full or gone; nobody waits for this message.
            pass
        self._broker.run_effects()

    def credit(self, _effect: object) -> None:
        """Each message of the broker has a producer of its own, so none waits for credit."""

    # $SYS

    def watch_system_topics(self) -> None:
        """A client has subscribed to topics of $SYS: publish them from now on."""
        if self._sys_timer is None:
            loop = asyncio.get_running_loop()
            self._sys_timer = loop.call_later(limits.MQTT_SYS_SECONDS, self._publish_system_topics)

    def _publish_system_topics(self) -> None:
        self._sys_timer = None
        if any(SYS in written for session in self._sessions.values() for written in session.subscriptions):
            self.watch_system_topics()
            for message in self._system_messages():
                self._publish(message.destination, message.body, message.fields, persistent=False)

    def _system_messages(self) -> Iterable[RetainedMessage]:
        figures = totals(self._core)
        values = {
            "version": f"mqlab {__version__}", "uptime": f"{int(time() - self._started_s)} seconds",
            "clients/connected": self._connections(), "clients/total": len(self._sessions),
            "subscriptions/count": figures["subscriptions"], "retained messages/count": len(self.retained),
            "store/messages/count": figures["messages"], "store/messages/bytes": figures["bytes"],
        }  # fmt: skip
        return [
            RetainedMessage(destination_of(f"{SYS}broker/{name}"), str(value).encode(), {})
            for name, value in values.items()
        ]

    def retained_for(self, topic_filter: TopicFilter) -> list[RetainedMessage]:
        """The retained messages, and those of $SYS, that a new subscription gets."""
        own = [message for message in self._system_messages() if topic_filter.matches(message.destination)]
        return [*self.retained.matching(topic_filter), *own]


def subscription_name(topic_filter: TopicFilter) -> str:
    """The name of the durable subscription of a session."""
    return f"mqtt:{topic_filter.written}"
