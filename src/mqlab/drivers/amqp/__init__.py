"""The AMQP 0-9-1 driver: client with channels, links and request/reply."""
