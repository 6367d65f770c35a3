"""Traces of what applications do: the activity trace (chosen by stanzas, to a queue) and the API trace (to a file).

What happens at each operation is as little as can be: raw values are put into a list. They become records, or lines,
later and many at a time. Nothing here decides about messages, and nothing here can hold an application back.
"""
