"""MQTT 3.1.1 and 5 for clients: control packets, and batches of messages."""
