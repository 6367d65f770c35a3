"""The blocking API: one message at a time.

mqlab broker --data /tmp/mqlab-data              # in one terminal
python examples/blocking.py tcp:127.0.0.1:7766   # in another
"""

import sys

from mqlab.client import connect


def main(address: str) -> None:
    with connect(address) as connection:
        session = connection.session()
        producer = session.producer("queue:example.orders")
        consumer = session.consumer("queue:example.orders")

        # Not persistent: `send` does not wait, and the message leaves at once.
        producer.send(b"first order")
        # Persistent: when this returns, the message is on the broker's disk.
        producer.send(b"second order", persistent=True)

        # The consumer acknowledges a message when the application asks for the next one.
        for _ in range(2):
            print("received", consumer.receive(timeout=10).body.decode())
        consumer.close()

        # A transaction: receive an order and send its answer. Both happen, or neither.
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
        # Closing the consumer acknowledges its last message.
        consumer.close()


if __name__ == "__main__":
    main(sys.argv[1])
