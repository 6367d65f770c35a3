"""The content of a report: the rows of the measure tables as typed records, and the lookups for exhibits and claims."""
