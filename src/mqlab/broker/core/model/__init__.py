"""The state of the core: destinations, queues, lists of spans, sessions with their producers and consumers."""
