"""The JMS driver: a provider's Java library inside this process, and its null server."""
