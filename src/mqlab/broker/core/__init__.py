"""The core decides: it takes commands, and facts such as "durable up to record 7", and returns effects.

It touches no socket, clock, thread or file: the server runs the effects, and a simulation can crash it anywhere.
"""
