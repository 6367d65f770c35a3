"""Checks beside the runs: calibration of the lab, sync checks and warm-up of systems, and conformance."""
