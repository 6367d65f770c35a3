"""Output formats: HTML, Markdown, terminal, JSON. `exhibits` decides their content."""
