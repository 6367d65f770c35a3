"""MEASURE: PySpark from the events of a run folder to its measures; nothing else computes a reported number.

One pure DataFrame -> DataFrame function a table, its last `select` the table's contract; `measure` runs them all.
Nothing here sends, receives or samples anything, and nothing here draws.
"""
