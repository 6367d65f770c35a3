"""The rows of tables that the tests read."""

from typing import Any

# Any: pyarrow has no types, and pyspark types the values of a row as Any. Only the test knows the type of a column.
Row = dict[str, Any]
# The rows of each table, by the name of the table.
Tables = dict[str, list[Row]]
