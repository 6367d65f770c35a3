"""The Kafka driver: clients, links, request/reply and its null server."""
