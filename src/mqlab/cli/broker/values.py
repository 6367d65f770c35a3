"""Values with their names, as a table of two columns."""

from typing import Any

from rich.table import Table

from mqlab.cli.broker.escaping import cell


def values_table(values: dict[str, Any]) -> Table:
    """What is inside of a value is shown under both names: policy.queue_limit."""
    table = Table("what", "value", box=None)
    for name, value in values.items():
        if isinstance(value, dict):
            for inner, one in value.items():
                table.add_row(cell(f"{name}.{inner}"), cell(one))
        else:
            table.add_row(cell(name), cell(value))
    return table
