"""Output of texts that come from clients: escaped, so that no terminal obeys them and each stays on one line."""

import json
import sys

from rich.table import Table
from rich.text import Text

from mqlab.cli.terminal.console import say
from mqlab.json_values import JsonObject


def plain(text: str) -> str:
    """Return the text on one line, with every character escaped that cannot be printed."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def cell(value: object) -> Text:
    """Return a value as the cell of a table: escaped, without markup, with thousands separators; None is empty."""
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, int):
        return Text(f"{value:,}")
    if isinstance(value, float):
        return Text(f"{value:,.3f}")
    return Text("" if value is None else plain(str(value)))


def body_text(body: bytes, max_chars: int) -> str:
    """Return at most `max_chars` characters of a body: as text if it is UTF-8, otherwise as hexadecimal digits."""
    try:
        text = plain(body.decode())
    except UnicodeDecodeError:
        text = "0x" + body[:max_chars].hex()
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def values_table(values: JsonObject) -> Table:
    """Return a table of names and values. A nested value is shown under both names: policy.queue_limit."""
    table = Table("what", "value", box=None)
    for name, value in values.items():
        if isinstance(value, dict):
            for inner_name, inner_value in value.items():
                table.add_row(cell(f"{name}.{inner_name}"), cell(inner_value))
        else:
            table.add_row(cell(name), cell(value))
    return table


def show_result(response: JsonObject, text: str, *, as_json: bool) -> None:
    """Print the response of a broker as JSON on stdout, or else a sentence about it on stderr."""
    if as_json:
        show_plain_json(response)
    else:
        say(plain(text))


def show_plain_json(document: object) -> None:
    """Print one JSON document. Printable characters stay as they are; JSON escapes replace the others."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    if not text.replace("\n", "").isprintable():
        text = "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)
    sys.stdout.write(text + "\n")
