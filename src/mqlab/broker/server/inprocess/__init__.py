"""The broker's side of the in-process transport (`mqlab.client.inprocess`), and the broker that a program hosts."""
