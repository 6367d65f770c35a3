"""Two whole brokers, each with its disk, joined by channels both ways, and clients at both: all driven by one seed.

What is real: core, store, server, protocol, channels, client library. What is imitated: disks, clock, threads, network.
"""
