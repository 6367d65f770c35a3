"""The server side of the in-process transport, and the broker that an application hosts."""
