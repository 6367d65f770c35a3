"""AMQP 0-9-1 for clients: methods, batches of messages, and the handshake."""
