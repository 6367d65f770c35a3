"""The AMQP 1.0 driver: client on Proton, links, messages, transactions and request/reply."""
