"""The NATS driver: client, links for core NATS and JetStream, request/reply and null server."""
