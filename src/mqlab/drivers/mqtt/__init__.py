"""The MQTT driver: sessions, links, request/reply and its null server."""
