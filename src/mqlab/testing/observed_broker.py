"""A broker that records what is sent to it, and whose clock a test can set."""

from collections import defaultdict
from typing import ClassVar, Final

from mqlab.broker.core.broker import Core
from mqlab.broker.core.dispatch.direct import DecodedHeaders
from mqlab.broker.core.effects import Answer
from mqlab.broker.core.model.sessions import CoreProducer, CoreSession
from mqlab.broker.core.routing.remote_queues import MQTT_STATE, TOKENS, TRANSMISSION
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.mqtt.topics import SYS, destination_of
from mqlab.broker.server.trace.traced_links import TRACE_QUEUE
from mqlab.broker.settings import Settings
from mqlab.testing.sent import SentMessage, SentMessages, messages_of
from mqlab.wire.native.bodies import Payload

# Where the broker itself keeps its state, and what it publishes of itself.
_OWN: Final = (
    *(f"queue:{prefix}" for prefix in (MQTT_STATE, TOKENS, TRANSMISSION)), TRACE_QUEUE, destination_of(f"{SYS}broker"),
)  # fmt: skip


class RecordingCore(Core):
    """Records each message that it has accepted; one of a transaction when that is committed."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.sent = SentMessages()
        self._uncommitted: defaultdict[CoreSession, list[SentMessage]] = defaultdict(list)
        self._prepared: dict[str, list[SentMessage]] = {}

    def send(
        self, producer: CoreProducer, payload: Payload, seq: int, *, persistent: bool, confirm: bool,
        headers: DecodedHeaders = None, cost: int | None = None,
    ) -> None:  # fmt: skip
        super().send(producer, payload, seq, persistent=persistent, confirm=confirm, headers=headers, cost=cost)
        name = producer.target
        if name.startswith(_OWN):
            return
        session = producer.session
        messages = messages_of(payload, name, session.client, persistent=persistent)
        if session.transacted:
            self._uncommitted[session] += messages
        else:
            self.sent.append(messages)

    def commit(self, session: CoreSession) -> None:
        super().commit(session)
        self.sent.append(self._uncommitted.pop(session, []))

    def rollback(self, session: CoreSession) -> None:
        super().rollback(session)
        self._uncommitted.pop(session, None)

    def close_session(self, session: CoreSession) -> None:
        super().close_session(session)
        self._uncommitted.pop(session, None)

    def prepare(self, session: CoreSession, xid: str, answer: Answer) -> None:
        super().prepare(session, xid, answer)
        self._prepared[xid] = self._uncommitted.pop(session, [])

    def decide(self, xid: str, answer: Answer, *, commit: bool) -> None:
        super().decide(xid, answer, commit=commit)
        messages = self._prepared.pop(xid, [])
        if commit:
            self.sent.append(messages)


class ObservedBroker(Broker):
    core_class: ClassVar[type[Core]] = RecordingCore
    # Milliseconds by which its clock is ahead of the machine's.
    _ahead_ms = 0

    @property
    def sent(self) -> SentMessages:
        assert isinstance(self.core, RecordingCore)
        return self.core.sent

    def update_clock(self) -> None:
        super().update_clock()
        self._context.now_ms += self._ahead_ms

    def clock_ms(self) -> int:
        return super().clock_ms() + self._ahead_ms

    def advance(self, step_ms: int) -> int:
        """Set the clock forward, or back, and let happen what is due then. Returns the time in ms since 1970."""
        self._ahead_ms += step_ms
        self.update_clock()
        if step_ms < 0:
            self.core.clock_set_back(-step_ms)
        self.core.tick(self._context.now_ms)
        self.mqtt.reschedule()
        self.run_effects()
        if self._wakes:
            self._set_timer(self._wakes[0][0])
        return self._context.now_ms

    def _set_timer(self, due_ms: int) -> None:
        super()._set_timer(due_ms - self._ahead_ms)
        self._timer_due_ms = due_ms
