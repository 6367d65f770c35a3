"""Messages that differ from each other: their sizes, bodies and properties."""
