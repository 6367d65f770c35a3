"""The AMQP 0-9-1 driver: client with channels, links, request/reply and null server."""
