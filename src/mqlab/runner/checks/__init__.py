"""Checks beside the runs: calibration of drivers, sync checks and warm-up of systems, and conformance."""
