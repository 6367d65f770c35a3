"""HTTP: Prometheus metrics and status pages for programs on this machine."""
