"""The embedded broker as a system under test: its settings, its process, its trace."""
