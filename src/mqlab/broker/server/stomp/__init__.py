"""STOMP 1.0, 1.1 and 1.2: translates between STOMP frames and frames of the native protocol.

A STOMP connection drives an in-process native connection. So login, rights, limits, flow control and traces are the
same for both protocols, and the rest of the broker does not know STOMP.
"""
