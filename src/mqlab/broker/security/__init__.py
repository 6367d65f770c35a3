"""Who may connect, who that is, and what it may do: users, rights, TLS, and the count of connections and failures.

No socket, thread or clock here: the server asks, and passes the time.
"""
