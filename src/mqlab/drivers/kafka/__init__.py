"""The Kafka driver: client, producer and consumer thread on librdkafka, links, request/reply and null server."""
