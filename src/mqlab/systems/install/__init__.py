"""Installation of systems: Maven, Go and apt-get get the parts of a system into the user's cache or the machine."""
