"""The shapes of diagrams as SVG: boxes, texts and arrows, in colours for light and dark backgrounds."""

from collections.abc import Sequence
from html import escape

BOX = 22  # the height of a box


def rect(x: int, y: int, width: int, height: int, kind: str) -> str:
    look = {
        "box": 'rx="4" fill="#808a96" fill-opacity="0.10" stroke="#808a96"',
        "destination": 'rx="11" fill="#1f6feb" fill-opacity="0.12" stroke="#1f6feb"',
        # Square and bold: a destination of persistent messages.
        "stored destination": 'rx="3" fill="#1f6feb" fill-opacity="0.12" stroke="#1f6feb" stroke-width="2.2"',
        "machine": 'rx="8" fill="none" stroke="#808a96" stroke-dasharray="4 3"',
    }[kind]
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" {look}/>'


def text_at(x: int, y: int, text: str, kind: str) -> str:
    look = {
        "inside": 'font-size="11px" text-anchor="middle"',
        "gap": 'font-size="14px" text-anchor="middle"',
        "caption": 'font-size="11px" font-weight="600"',
        "small": 'font-size="11px"',
    }[kind]
    return f'<text x="{x}" y="{y}" {look}>{escape(text)}</text>'


def box(x: int, y: int, width: int, text: str, kind: str = "box") -> list[str]:
    return [rect(x, y, width, BOX, kind), text_at(x + width // 2, y + 15, text, "inside")]


def arrow(x1: int, y1: int, x2: int, y2: int) -> str:
    look = 'fill="none" stroke="#808a96" stroke-width="1.2" marker-end="url(#tip)"'
    end = x2 - 3 if x2 >= x1 else x2 + 3
    return f'<path d="M{x1},{y1}L{end},{y2}" {look}/>'


def picture(width: int, height: int, parts: Sequence[str]) -> str:
    tip = (
        '<defs><marker id="tip" markerWidth="7" markerHeight="7" refX="5" refY="3" orient="auto">'
        '<path d="M0,0L6,3L0,6Z" fill="#808a96"/></marker></defs>'
    )
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{tip}{"".join(parts)}</svg>'
