"""The JMS driver: the provider's Java library in the JVM of this process, links and request/reply."""
