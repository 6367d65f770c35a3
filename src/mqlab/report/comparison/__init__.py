"""Comparison of two systems at every point that both were run at: of one run, in which they took turns, or of two."""
