"""STOMP over WebSocket: an adapter between the socket and an ordinary connection of STOMP.

`handshake` decides about the request of HTTP, `connection` unpacks what the client says, `transport` packs what it is
told. Nothing in `server.stomp` knows of it.
"""
