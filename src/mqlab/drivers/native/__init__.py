"""The driver of the embedded broker's native protocol: links, request/reply and null server."""
