"""The STOMP driver: client, flavours of brokers, links and request/reply."""
