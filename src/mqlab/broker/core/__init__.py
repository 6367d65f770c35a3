"""The broker's decisions, pure: commands (and facts such as "durable up to record 7") in, effects out.

No socket, clock, thread or file: the server carries the effects out, and a simulator can crash it anywhere.
"""
