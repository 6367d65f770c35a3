"""The in-process transport of `bindings:NAME`: a client and a broker in one process exchange frames without a socket.

The client connects through `listener`, and talks by `frame_connection` or, in the broker's own event loop, by
`direct_connection`. The broker (`mqlab.broker.server.inprocess`) registers a listener and implements `endpoint`.
Both sides write to the transports of `transport`.
"""
