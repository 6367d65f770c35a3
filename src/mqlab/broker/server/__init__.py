"""The broker as a server: listeners, protocol adapters, and the loop that runs the core's effects.

The core decides about messages and the store owns the files; the server has sockets, the clock and sync threads.
"""
