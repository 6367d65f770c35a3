"""The drivers of MQTT 5 and 3.1.1: client, links and request/reply."""
