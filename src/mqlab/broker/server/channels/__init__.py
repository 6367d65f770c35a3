"""Channels move messages from transmission queues to queues of other brokers, each message exactly once.

A channel consumes from this broker's core and sends as a client of the other broker.
"""
