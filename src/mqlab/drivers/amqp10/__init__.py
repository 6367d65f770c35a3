"""The AMQP 1.0 driver: engine, links, request/reply, transactions and its null server."""
