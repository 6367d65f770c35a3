"""The disk of a system: a file system of its own, which the lab can fill."""
