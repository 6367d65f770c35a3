"""MQTT 3.1.1 and 5: sessions, subscriptions, retained messages and wills, on the queues and topics of the broker.

`state_table` is that of a connection, `state` what outlives connections.
"""
