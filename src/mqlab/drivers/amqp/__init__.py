"""The AMQP 0-9-1 driver: connections, links, request/reply and its null server."""
