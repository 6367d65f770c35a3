"""AMQP messages: transfers to rows of the broker, deliveries to encoded messages."""
