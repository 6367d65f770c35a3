"""The JMS driver: the provider's Java library in the JVM of this process, links, request/reply and null server."""
