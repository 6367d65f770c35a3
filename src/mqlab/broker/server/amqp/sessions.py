"""The sessions of an AMQP connection, by their channel."""

from mqlab.broker import limits
from mqlab.broker.server.amqp.context import AmqpContext
from mqlab.broker.server.amqp.errors import NOT_ALLOWED, AmqpConditionError, SessionError
from mqlab.broker.server.amqp.session import AmqpSession
from mqlab.wire.amqp10.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Transfer,
    encode_performative,
)


class AmqpSessions:
    """Gives the client's frames to their session. A session that fails ends alone."""

    def __init__(self, context: AmqpContext) -> None:
        self._context = context
        self._by_channel: dict[int, AmqpSession] = {}
        # Channels of sessions that the broker has ended; the client's frames are ignored until its `end`.
        self._failed_channels: set[int] = set()
        # Sessions that may have something to write at the end of the turn.
        self._due: dict[AmqpSession, None] = {}

    def is_ready(self, channel: int, performative: Begin | Attach | Close) -> bool:
        """Whether the frame can be handled now.

        A client may use the number of a link or session again as soon as it has ended it on its side. The broker ends
        it after the outcomes of its deliveries, and the connection after those of all deliveries.
        """
        if isinstance(performative, Close):
            unsettled = any(session.has_unsettled for session in self._by_channel.values())
            return not unsettled and not self._context.producers.has_waiting
        session = self._by_channel.get(channel)
        if session is None:
            return True
        if isinstance(performative, Begin):
            return not session.is_ending
        return not session.is_detaching(performative.handle)

    def handle(self, channel: int, performative: object, payload: bytes = b"") -> None:
        """Raises AmqpConditionError and AmqpDecodeError."""
        if type(performative) is Begin:
            self._begin(channel, performative)
            return
        if channel in self._failed_channels:
            if isinstance(performative, End):
                self._failed_channels.discard(channel)
            return
        session = self._by_channel.get(channel)
        if session is None or session.is_ending:
            raise AmqpConditionError(NOT_ALLOWED, f"there is no session on channel {channel}")
        try:
            self._handle(session, performative, payload)
        except SessionError as error:
            del self._by_channel[channel]
            self._failed_channels.add(channel)
            session.fail(error)

    def end_turn(self) -> None:
        """Write outcomes, and end the links and sessions that the client has ended."""
        for session in [*self._due]:
            self._due.pop(session, None)
            if self._by_channel.get(session.channel) is not session:
                continue
            if session.end_turn():
                del self._by_channel[session.channel]
            elif session.is_due:
                self._due[session] = None

    def clear(self) -> None:
        """The connection is lost: release the memory of the sessions."""
        for session in self._by_channel.values():
            session.clear()
        self._by_channel.clear()
        self._due.clear()

    def _handle(self, session: AmqpSession, performative: object, payload: bytes) -> None:
        """Raises SessionError, AmqpConditionError and AmqpDecodeError."""
        if type(performative) is Transfer:
            session.transfer(performative, payload)
            return
        # Messages that arrived before this frame come first.
        self._context.producers.flush()
        match performative:
            case Disposition():
                session.disposition(performative)
            case Flow():
                session.flow(performative)
            case Attach():
                links = sum([one.links for one in self._by_channel.values()])
                session.attach(performative, has_room=links < limits.LINKS_A_CONNECTION)
            case Detach():
                session.detach(performative)
            case End():
                session.end()

    def _begin(self, channel: int, begin: Begin) -> None:
        if channel in self._by_channel or channel >= limits.AMQP_SESSIONS:
            raise AmqpConditionError(NOT_ALLOWED, f"channel {channel} is in use, or above {limits.AMQP_SESSIONS - 1}")
        if begin.remote_channel is not None:
            raise AmqpConditionError(NOT_ALLOWED, "the broker has begun no session")
        self._failed_channels.discard(channel)
        session = self._by_channel[channel] = AmqpSession(self._context, channel, begin, self._due)
        self._context.write(channel, encode_performative(session.answer()))
