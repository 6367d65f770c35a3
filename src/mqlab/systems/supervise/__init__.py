"""Supervision: a system's process ends with the lab that started it."""
