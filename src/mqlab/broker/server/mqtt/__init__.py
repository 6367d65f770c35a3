"""MQTT 3.1.1 and 5: sessions, subscriptions, retained messages and wills, on the queues and topics of the broker.

`connection` has the state table of a connection, `state` what outlives connections.
"""
