"""Output formats: HTML, Markdown, terminal, JSON. What they show is decided in `exhibits`."""
