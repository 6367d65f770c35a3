"""Claims: evaluation of their checks, verdicts, and the tables that show them."""
