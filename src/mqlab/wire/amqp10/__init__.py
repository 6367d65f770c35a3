"""AMQP 1.0 without input or output: the type system, performatives, frames and the sections of a message."""
