"""Texts of clients on a terminal: names, headers and bodies hold anything, and must not become commands or lines."""

import json
import sys
from typing import Any

from rich.text import Text


def plain(text: str) -> str:
    """On one line, with nothing in it that a terminal would obey or that changes how the rest is read."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def cell(value: object) -> Text:
    """For a table: plain, and no markup of ours; numbers in groups of three digits, nothing for None."""
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, int):
        return Text(f"{value:,}")
    if isinstance(value, float):
        return Text(f"{value:,.3f}")
    return Text("" if value is None else plain(str(value)))


def body_text(body: bytes, most: int) -> str:
    """A body as far as it has room: as text if it is text, else in hexadecimal digits."""
    try:
        text = plain(body.decode())
    except UnicodeDecodeError:
        text = "0x" + body[:most].hex()
    return text if len(text) <= most else text[: most - 1] + "…"


def show_plain_json(document: Any) -> None:
    """One JSON document. Letters stay as they are; what cannot be printed is escaped as JSON escapes it."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    if not text.replace("\n", "").isprintable():
        text = "".join(one if one.isprintable() or one == "\n" else json.dumps(one)[1:-1] for one in text)
    sys.stdout.write(text + "\n")
