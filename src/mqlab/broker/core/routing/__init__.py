"""Routing: from a send to the queues and subscriptions that get its messages."""
