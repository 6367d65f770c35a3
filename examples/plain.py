"""The plain API: one message at a time.

mqlab broker --data /tmp/mqlab-data              # in one terminal
python examples/plain.py tcp:127.0.0.1:7766      # in another
"""

import sys

from mqlab.client import connect


def main(address: str) -> None:
    with connect(address) as connection:
        session = connection.session()
        producer = session.producer("queue:example.orders")
        consumer = session.consumer("queue:example.orders")

        # Not persistent: it leaves at once, with whatever else is ready. Nothing to wait for, nothing to flush.
        producer.send(b"first order")
        # Persistent: when this returns, the message is on the broker's disk.
        producer.send(b"second order", persistent=True)

        # What was received is acknowledged when the next message is asked for.
        for _ in range(2):
            print("received", consumer.receive(timeout=10).body.decode())
        consumer.close()

        # A transaction: take a message, send its answer; both happen, or neither.
        work = connection.session("transacted")
        producer.send(b"third order", persistent=True)
        orders, answers = work.consumer("queue:example.orders"), work.producer("queue:example.answers")
        answers.send(b"answer to " + orders.receive(timeout=10).body, persistent=True)
        work.rollback()
        print("rolled back: the order comes again, the answer was never sent")
        order = orders.receive(timeout=10)
        answers.send(b"answer to " + order.body, persistent=True)
        work.commit()
        print("committed", order.body.decode(), "redelivered" if order.redelivered else "")

        consumer = session.consumer("queue:example.answers")
        print("received", consumer.receive(timeout=10).body.decode())
        # There is no next message: closing the consumer acknowledges the last one.
        consumer.close()


if __name__ == "__main__":
    main(sys.argv[1])
