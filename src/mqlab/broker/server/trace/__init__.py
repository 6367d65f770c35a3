"""Traces of applications: the activity trace (chosen by stanzas, to a queue) and the API trace (to a file).

Each operation only appends raw values to a list; they become records or lines later, many at a time. A trace never
changes what happens to messages, and never makes an application wait.
"""
