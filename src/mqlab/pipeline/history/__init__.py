"""The history: the measures of all run folders as one Parquet dataset, and their trends. It outlives the run folders,
which are large: a folder that was removed stays in the history.
"""
