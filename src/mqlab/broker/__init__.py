"""The embedded broker, usable without the lab: `core` decides, `store` writes the journal, `server` has the sockets.

It does not know the lab. Settings and limits are here because all three parts read them.
"""
