"""RECORD: the schema of the event tables, their recorder, and the run folder.

A row covers a range of consecutive messages, so the events account for every message without a row for each.
This package computes no measures and does not know drivers or systems.
"""
