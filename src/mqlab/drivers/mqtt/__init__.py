"""The drivers of MQTT 5 and 3.1.1: client, links, request/reply and null server."""
