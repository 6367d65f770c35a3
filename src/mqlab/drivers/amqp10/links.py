"""Links of the AMQP 1.0 driver: sender and receiver on Proton's links, and transactions.

A link to the broker's coordinator declares and discharges transactions.
"""

import itertools
from functools import partial
from typing import Any, Final

import numpy as np
from proton import Delivery, Described, Endpoint, Link, Message, Session, Terminus, symbol, ulong
from proton import Receiver as ProtonReceiver
from proton import Sender as ProtonSender

from mqlab.drivers.amqp10.client import Amqp10Client
from mqlab.drivers.amqp10.messages import (
    DecodedMessage,
    decode,
    encode_application_properties,
    encode_before_body,
    encode_group,
    encode_header,
)
from mqlab.drivers.api import (
    DriverError,
    Matrix,
    MessageHeaders,
    Properties,
    ReceivedBatch,
    Receiver,
    ReceiverOptions,
    Sender,
)
from mqlab.drivers.common.message_rows import expires_ms, message_rows
from mqlab.drivers.common.timeouts import BLOCKED_TIMEOUT_S
from mqlab.wire.native.bodies import Bodies

# Messages that go to Proton between two writes to the socket.
_MAX_WRITE_MESSAGES: Final = 256
# States of a delivery in a transaction.
# Any: the types of Proton allow only integers in a delivery state.
_Value = Any
_DECLARED, _TRANSACTIONAL = 0x33, 0x34


class ProtonLink:
    """A Proton link, which sends its events here."""

    def __init__(self, client: Amqp10Client, link: Link) -> None:
        self.client = client
        self.link = link
        self.detached = False
        link.context = self

    async def attach(self) -> None:
        client, link = self.client, self.link
        link.open()
        client.process()
        await client.wait_until(lambda: bool(link.state & (Endpoint.REMOTE_ACTIVE | Endpoint.REMOTE_CLOSED)))
        if link.state & Endpoint.REMOTE_CLOSED:
            client.check()
            raise DriverError("the broker refused a link")

    async def close(self) -> None:
        """Close the link, which also deletes a durable subscription."""
        link = self.link
        if link.state & Endpoint.LOCAL_ACTIVE:
            link.close()
            self.client.process()
            # The broker answers after it has processed all messages.
            await self.client.wait_until(
                lambda: bool(link.state & Endpoint.REMOTE_CLOSED) or self.detached, BLOCKED_TIMEOUT_S
            )

    def detach(self) -> None:
        """Detach the link; its durable subscription stays."""
        if self.link.state & Endpoint.LOCAL_ACTIVE:
            self.detached = True
            self.link.detach()
            self.client.process()


class SendingLink(ProtonLink):
    link: ProtonSender

    def __init__(self, client: Amqp10Client, link: ProtonSender) -> None:
        super().__init__(client, link)
        self._tags = itertools.count()
        self._unconfirmed = 0
        self._refused = ""
        self._call_delivery: Delivery | None = None

    async def send(
        self, messages: list[bytes], *, settled: bool, transaction: "TransactionCoordinator | None" = None
    ) -> None:
        """Return when all messages are written, which needs credit from the broker."""
        client, link = self.client, self.link
        at = 0
        while at < len(messages):
            credit = min(link.credit - link.queued, _MAX_WRITE_MESSAGES)
            if credit <= 0:
                client.process()
                await client.wait_until(lambda: link.credit - link.queued > 0, BLOCKED_TIMEOUT_S)
                continue
            for message in messages[at : at + credit]:
                delivery = link.delivery(str(next(self._tags)))
                link.stream(message)
                link.advance()
                if transaction is not None:
                    transaction.send(delivery)
                if settled:
                    delivery.settle()
                else:
                    self._unconfirmed += 1
            at += credit
            if settled:
                client.process()
            else:
                # The role waits for the outcome: others may send in this turn as well.
                client.process_soon()
            await client.wait_writable()

    async def wait_confirmed(self) -> None:
        """Return when the broker has accepted all unsettled messages."""
        await self.client.wait_until(lambda: self._unconfirmed == 0 or bool(self._refused), BLOCKED_TIMEOUT_S)
        if self._refused:
            raise DriverError(self._refused)

    async def call(self, message: bytes) -> Delivery:
        """Send a message and return its delivery, whose state is the answer."""
        await self.client.wait_until(lambda: self.link.credit > 0)
        delivery = self._call_delivery = self.link.delivery(str(next(self._tags)))
        self.link.stream(message)
        self.link.advance()
        self.client.process()
        await self.client.wait_until(lambda: bool(delivery.remote_state))
        delivery.settle()
        return delivery

    def handle_delivery(self, delivery: Delivery) -> None:
        if not delivery.updated or delivery == self._call_delivery:
            return
        if delivery.remote_state not in (Delivery.ACCEPTED, _TRANSACTIONAL):
            self._refused = f"the broker did not accept a message ({delivery.remote_state})"
        self._unconfirmed -= 1
        delivery.settle()


class ReceivingLink(ProtonLink):
    """A Proton link that receives. `inbox` has messages that no role has received yet, with their deliveries."""

    link: ProtonReceiver

    def __init__(self, client: Amqp10Client, link: ProtonReceiver, prefetch: int) -> None:
        super().__init__(client, link)
        self.inbox: list[tuple[bytes, Delivery]] = []
        self._prefetch = prefetch
        # Settled messages for which the broker has no credit yet.
        self._credit_due = 0

    async def attach(self) -> None:
        await super().attach()
        self.link.flow(self._prefetch)
        self.client.process()

    def handle_delivery(self, delivery: Delivery) -> None:
        if delivery.readable and not delivery.partial:
            self.inbox.append((self.link.recv(delivery.pending) or b"", delivery))
            self.link.advance()

    async def wait_message(self) -> None:
        await self.client.wait_for(lambda: bool(self.inbox))

    def accept(self, deliveries: list[Delivery]) -> None:
        """Accept and settle deliveries."""
        self.client.check()
        for delivery in deliveries:
            delivery.update(Delivery.ACCEPTED)
        self.settle(deliveries)

    def settle(self, deliveries: list[Delivery]) -> None:
        """Settle deliveries. Grant credit for half of the prefetch at a time: a frame for each message costs much."""
        for delivery in deliveries:
            delivery.settle()
        self._credit_due += len(deliveries)
        if 2 * self._credit_due >= self._prefetch:
            self.link.flow(self._credit_due)
            self._credit_due = 0
        self.client.process_soon()


class Amqp10Sender(Sender):
    def __init__(
        self, sending: SendingLink, transactions: "TransactionCoordinator | None", *, persistent: bool
    ) -> None:
        self._sending = sending
        self._transactions = transactions
        self._persistent = persistent
        self._header = encode_header(persistent=persistent)

    async def send(
        self, bodies: Matrix, *, wait: bool, properties: Properties | None = None, headers: MessageHeaders | None = None
    ) -> None:
        rows, size = bodies.shape
        data = np.ascontiguousarray(bodies).tobytes()
        bodies_of = [data[at : at + size] for at in range(0, rows * size, size)]
        if properties is None and headers is None:
            before = encode_before_body(size, self._header)
            messages = [before + body for body in bodies_of]
        else:
            sections = self._sections(rows, properties, headers)
            messages = [
                encode_before_body(size, section) + body for section, body in zip(sections, bodies_of, strict=True)
            ]
        if self._transactions is not None:
            await self._transactions.begin()
        settled = not wait and self._transactions is None
        await self._sending.send(messages, settled=settled, transaction=self._transactions)
        if wait:
            await self._sending.wait_confirmed()

    def _sections(self, count: int, properties: Properties | None, headers: MessageHeaders | None) -> list[bytes]:
        """The sections before the body of each message."""
        expires, header = expires_ms(headers), partial(encode_header, persistent=self._persistent)
        return [
            header(priority=row.priority, expires_ms=expires)
            + (encode_group(row.key) if row.key is not None else b"")
            + (encode_application_properties(row.properties.items()) if row.properties else b"")
            for row in message_rows(count, properties, headers)
        ]

    async def commit(self) -> None:
        if self._transactions is not None:
            await self._sending.wait_confirmed()
            await self._transactions.commit()

    async def close(self) -> None:
        await self._sending.close()


class Amqp10Receiver(Receiver):
    def __init__(
        self, receiving: ReceivingLink, options: ReceiverOptions, transactions: "TransactionCoordinator | None"
    ) -> None:
        self._receiving = receiving
        self._options = options
        self._transactions = transactions
        self._unsettled: list[Delivery] = []
        self._ack_delay = options.prefetch // 2 if options.acknowledge == "dups_ok" else 0

    async def receive(self) -> ReceivedBatch:
        receiving = self._receiving
        if (
            self._unsettled
            and not self._transactions
            and (len(self._unsettled) > self._ack_delay or not receiving.inbox)
        ):
            done, self._unsettled = self._unsettled, []
            receiving.accept(done)
        await receiving.wait_message()
        messages, deliveries = take_messages(receiving)
        self._unsettled += deliveries
        return ReceivedBatch(Bodies.of([message.body for message in messages]), messages[0].redelivered)

    async def commit(self) -> None:
        if self._transactions is None or not self._unsettled:
            return
        done, self._unsettled = self._unsettled, []
        await self._transactions.begin()
        for delivery in done:
            self._transactions.accept(delivery)
        await self._transactions.commit()
        self._receiving.settle(done)

    async def close(self) -> None:
        # In the modes client and transacted, only `receive` or `commit` accepts messages.
        if self._unsettled and self._options.acknowledge in ("auto", "dups_ok"):
            self._receiving.accept(self._unsettled)
        self._unsettled = []
        if not self._options.durable:
            await self._receiving.close()
            return
        self._receiving.detach()
        # A container has one connection, and the next subscriber needs a new one.
        await self._receiving.client.close()


def take_messages(receiving: ReceivingLink) -> tuple[list[DecodedMessage], list[Delivery]]:
    """Take the first messages of the inbox, up to a change between redelivered and not."""
    messages = [decode(data) for data, _ in receiving.inbox]
    again = messages[0].redelivered
    count = next((at for at, message in enumerate(messages) if message.redelivered != again), len(messages))
    deliveries = [delivery for _, delivery in receiving.inbox[:count]]
    del receiving.inbox[:count]
    return messages[:count], deliveries


class TransactionCoordinator:
    """The transactions of one session, one at a time. `sending` is the link to the coordinator."""

    def __init__(self, sending: SendingLink) -> None:
        self._sending = sending
        self._id: _Value = None

    @classmethod
    async def open(cls, client: Amqp10Client, session: Session, name: str) -> "TransactionCoordinator":
        link = session.sender(name)
        link.target.type = Terminus.COORDINATOR
        link.target.capabilities.put_object(symbol("amqp:local-transactions"))
        sending = SendingLink(client, link)
        await sending.attach()
        return cls(sending)

    async def begin(self) -> None:
        """Declare a transaction, unless one is open."""
        if self._id is None:
            declared: _Value = (await self._call("amqp:declare:list", [None], _DECLARED)).remote.data
            [self._id] = declared

    def send(self, delivery: Delivery) -> None:
        """Make a sent message part of the transaction."""
        delivery.local.data = [self._id]
        delivery.update(_TRANSACTIONAL)

    def accept(self, delivery: Delivery) -> None:
        """Accept a received message as part of the transaction."""
        accepted: _Value = Described(ulong(Delivery.ACCEPTED), [])
        delivery.local.data = [self._id, accepted]
        delivery.update(_TRANSACTIONAL)

    async def commit(self) -> None:
        transaction_id, self._id = self._id, None
        await self._call("amqp:discharge:list", [transaction_id, False], Delivery.ACCEPTED)

    async def _call(self, operation: str, values: list[_Value], expected: int) -> Delivery:
        answer = await self._sending.call(Message(body=Described(symbol(operation), values)).encode())
        if answer.remote_state != expected:
            raise DriverError(f"the broker refused a transaction ({answer.remote_state})")
        return answer
