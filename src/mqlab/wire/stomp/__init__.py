"""STOMP 1.0, 1.1 and 1.2: `frames` encodes one frame, `decoder` decodes a stream, `runs` decodes many equal frames."""
