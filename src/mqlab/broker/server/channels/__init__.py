"""Channels: messages for other brokers, from their transmission queue here to the queues over there, each exactly once.

A channel is an adapter of this broker's core and a client of the other broker. How queues are named and kept is the
core's; how a client talks to a broker is the client library's. Here is what makes one transfer out of the two.
"""
