"""The Redis driver: client, streams, links, request/reply and null server."""
