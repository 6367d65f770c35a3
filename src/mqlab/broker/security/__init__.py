"""Authentication and authorization: users, passwords, rights, and limits of connections and failed logins.

No module here uses a socket, a thread or a clock: the server calls them, and passes the time.
"""
