"""The state of the core: destinations, queues, spans of messages, sessions and their links."""
