"""STOMP 1.0, 1.1 and 1.2: a translator between its frames and those of the native protocol.

A connection (`connection`) drives an ordinary connection of the broker from inside; so login, rights, limits, flow
control and traces are the same for both protocols, and nothing below knows of STOMP.
"""
