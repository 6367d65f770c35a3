"""The driver of the embedded broker's native protocol: links and request/reply."""
