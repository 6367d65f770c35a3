"""Checks of a system and its driver before figures count: conformance, calibration, syncs, warm-up."""
