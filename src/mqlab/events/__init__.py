"""RECORD: the schema of the events, their writer, and the run folder they lie in.

A row covers a range of messages, so every message is accounted for without a row for each.
Nothing here computes a figure, and nothing here knows who sends or receives.
"""
