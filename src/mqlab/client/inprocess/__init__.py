"""The in-process transport: a client and a broker in one process, without a socket."""
