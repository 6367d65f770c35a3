"""The NATS driver: client, links for core NATS and JetStream, and request/reply."""
