"""The load of a scenario: sizes, bodies and properties of its messages, and recorded rates; also from a trace."""
