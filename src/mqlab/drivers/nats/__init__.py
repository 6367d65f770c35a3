"""The NATS driver: core NATS and JetStream, request/reply and its null server."""
