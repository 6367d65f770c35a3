"""The study language: keys, values, units, expressions and the checks of a study file."""
