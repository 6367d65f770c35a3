"""Computations that several measure tables share: deliveries, histograms, intervals, ratios."""
