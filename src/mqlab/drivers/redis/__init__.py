"""The Redis driver: client, streams, links for streams and pub/sub, and request/reply."""
