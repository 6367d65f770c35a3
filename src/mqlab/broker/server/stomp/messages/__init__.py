"""STOMP messages: SEND frames to payloads of the broker, deliveries to MESSAGE frames."""
