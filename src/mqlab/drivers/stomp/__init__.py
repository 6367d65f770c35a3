"""The STOMP driver: connections, links, flavours of brokers, request/reply and its null server."""
