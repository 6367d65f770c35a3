"""Gates, and files for other programs: the end of `run`, `report` and `compare`, after the results are shown."""
