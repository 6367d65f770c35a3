"""The embedded broker, usable alone: `core` decides, `store` keeps, `server` talks.

It knows nothing of the lab. Settings and limits stand beside this file because all three parts read them.
"""
