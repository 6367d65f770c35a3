"""The embedded broker as a system under test: its settings, its process, and the reader of its activity trace."""
