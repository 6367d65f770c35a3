"""The STOMP driver: client, flavours of brokers, links, request/reply and null server."""
