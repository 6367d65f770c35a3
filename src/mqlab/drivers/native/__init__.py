"""The driver of the embedded broker's own protocol: links and its null server."""
