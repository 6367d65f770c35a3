"""The Redis driver: pub/sub, streams, request/reply and its null server."""
