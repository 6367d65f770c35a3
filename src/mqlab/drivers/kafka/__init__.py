"""The Kafka driver: client, producer and consumer thread on librdkafka, links and request/reply."""
