"""The port to the core for protocols: what the adapter of every protocol needs and no protocol writes itself.

A protocol connection hands native frames to its own native connection, in one process and without bytes, and gets
native frames back. So login, rights, limits, flow control, tracing, metrics and the refusal log are the same for each.
"""
