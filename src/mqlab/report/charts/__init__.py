"""Charts and diagrams as SVG. Nothing here reads a table or computes a figure."""
