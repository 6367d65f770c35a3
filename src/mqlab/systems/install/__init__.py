"""Installation of systems with the package clients of this machine."""
