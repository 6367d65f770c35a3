"""The AMQP 1.0 driver: client on Proton, links, messages, transactions, request/reply and null server."""
