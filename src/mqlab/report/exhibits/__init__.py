"""Exhibits: the tables and figures of a report, before they are drawn."""
