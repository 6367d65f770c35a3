"""The results of runs as the runner has them: the outcome of each run, its records, and the progress of all."""
