"""MEASURE: PySpark computes the measure tables of a run folder from its events; no other package computes a figure.

Each table is a pure function from DataFrames to a DataFrame with the columns of `schema`; `measure` runs them all.
This package sends, receives, samples and draws nothing.
"""
