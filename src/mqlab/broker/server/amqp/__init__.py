"""AMQP 1.0 clients: the adapter turns performatives into commands of the native connection, and deliveries back.

A connection has sessions, a session has links. A link of a sending client is a producer, one of a receiving client a
consumer, and a link to the coordinator controls transactions.
"""
