"""What a role holds of a connection to NATS: the sending and receiving ends."""

from mqlab.drivers.api import DriverError, Matrix, Properties, ReceivedBatch, Receiver, Sender
from mqlab.drivers.common.barriers import Marks
from mqlab.drivers.common.inbox import Inbox
from mqlab.drivers.nats.connection import Talk
from mqlab.drivers.nats.jetstream import Publisher, Pull
from mqlab.drivers.nats.names import Place
from mqlab.wire import nats
from mqlab.wire.equal_frames import FrameTemplate

NO_TRANSACTIONS = "NATS has no transactions"
NO_PROPERTIES = "NATS cannot choose messages by their properties"


class PlainSender(Sender):
    """A confirmed send is followed by a PING: the server has passed on all that came before its PONG."""

    def __init__(self, talk: Talk, place: Place) -> None:
        self._talk = talk
        self._subject = place.subject.encode()
        self._templates: dict[int, FrameTemplate] = {}
        self._marks = Marks(talk.pinged)

    async def send(self, bodies: Matrix, *, wait: bool, properties: Properties | None = None) -> None:
        if properties is not None:
            raise DriverError(NO_PROPERTIES)
        size = bodies.shape[1]
        template = self._templates.get(size)
        if template is None:
            template = self._templates[size] = nats.template(self._subject, size)
        await self._talk.send(template.filled(bodies))
        self._marks.sent(len(bodies))
        if wait:
            await self._marks.taken()

    async def wait_accepted(self, max_pending: int) -> None:
        await self._marks.taken(max_pending)

    async def commit(self) -> None:
        raise DriverError(NO_TRANSACTIONS)

    async def close(self) -> None:
        await self._marks.taken()


class StoredSender(Sender):
    """Every message is confirmed by the stream that keeps it, whether the role waits for that or not."""

    def __init__(self, talk: Talk, place: Place) -> None:
        self._publisher = Publisher(talk)
        self._subject = place.stored.encode()

    async def send(self, bodies: Matrix, *, wait: bool, properties: Properties | None = None) -> None:
        if properties is not None:
            raise DriverError(NO_PROPERTIES)
        await self._publisher.publish(self._subject, bodies)
        if wait:
            await self._publisher.confirmed()

    async def wait_accepted(self, max_pending: int) -> None:
        await self._publisher.confirmed(max_pending)

    async def commit(self) -> None:
        raise DriverError(NO_TRANSACTIONS)

    async def close(self) -> None:
        await self._publisher.close()


class PlainFeed:
    """What the server passes on, into an inbox."""

    def __init__(self, talk: Talk, place: Place, inbox: Inbox[nats.Subjects], *, answering: bool = False) -> None:
        self._talk = talk
        self._inbox = inbox
        self._answering = answering
        self._closing = False
        group = "all" if place.is_queue else ""
        self._sid = talk.subscribe(place.subject, self._delivered, self._headed, group)
        talk.when_gone(inbox.fail)

    async def close(self) -> None:
        # What still comes is nobody's: an inbox that it fills would hold back the line, and the answer with it.
        self._closing = True
        self._talk.unsubscribe(self._sid)
        self._talk.let_go(self._inbox)
        await self._talk.flushed()
        self._talk.forget(self._sid, self._inbox.fail)

    def _delivered(self, delivered: nats.SubscriptionBatch) -> None:
        if self._closing:
            return
        marks: list[nats.Subjects] = []
        if self._answering:
            marks = [nats.Subjects(*pair) for pair in zip(delivered.subjects, delivered.replies, strict=True)]
        self._inbox.put(delivered.bodies, marks)

    def _headed(self, headed: nats.HeaderMessage) -> None:
        self._inbox.fail(f"a message with headers came to {headed.subject.decode()}: it is not of the lab")


class NatsReceiver(Receiver):
    """`plain` and `pull`: where messages come from. Only those of a stream are acknowledged."""

    def __init__(self, inbox: Inbox[nats.Subjects], plain: PlainFeed | None, pull: Pull | None, *, lasts: bool) -> None:
        self._inbox = inbox
        self._plain = plain
        self._pull = pull
        self._lasts = lasts
        self._unfinished: list[nats.Subjects] = []

    async def receive(self) -> ReceivedBatch:
        if self._unfinished and self._pull is not None:
            marks, self._unfinished = self._unfinished, []
            await self._pull.acknowledge(marks)
        bodies, self._unfinished, redelivered = await self._inbox.take()
        return ReceivedBatch(bodies, redelivered)

    async def commit(self) -> None:
        raise DriverError(NO_TRANSACTIONS)

    async def close(self) -> None:
        plain, pull, self._plain, self._pull = self._plain, self._pull, None, None
        if plain is not None:
            await plain.close()
        if pull is not None:
            await pull.close(self._unfinished, delete=not self._lasts)
