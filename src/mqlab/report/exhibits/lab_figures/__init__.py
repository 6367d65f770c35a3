"""Figures that the lab adds to a study: latency distributions, latencies over time, messages in each second."""
