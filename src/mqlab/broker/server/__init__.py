"""The broker as a server: listeners, protocol adapters, and the loop that carries the core's effects out.

Decisions about messages are the core's, files are the store's; here are sockets, the clock and threads for syncs.
"""
