"""Safe SVG: only known elements and attributes remain, and no reference leads outside the picture."""

import re
import xml.etree.ElementTree as ET
from typing import Final

NAMESPACE: Final = "http://www.w3.org/2000/svg"
ELEMENTS: Final = frozenset(("svg", "g", "path", "line", "rect", "text", "tspan", "clipPath", "defs", "marker"))
# fmt: off
ATTRIBUTES: Final = frozenset((
    "id",
    "d", "x", "y", "x1", "y1", "x2", "y2", "rx", "ry", "width", "height", "viewBox", "transform", "clip-path",
    "fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "opacity",
    "text-anchor", "font-size", "font-weight", "dx", "dy",
    "marker-end", "markerWidth", "markerHeight", "refX", "refY", "orient",
))
# fmt: on
_POSITIONS: Final = frozenset(("d", "transform", "x", "y", "x1", "y1", "x2", "y2", "width", "height"))
_LONG_NUMBER: Final = re.compile(r"(\d+\.\d)\d+")
LOCAL_URL: Final = re.compile(r"url\(#[\w.-]+\)")

# The style of a picture in a file of its own: it has no page around it that colours its texts.
_FILE_STYLE: Final = (
    "svg{color:#1f2933;font-family:system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}"
    "text{fill:currentColor}@media(prefers-color-scheme:dark){svg{color:#e4e7eb}}"
)


def clean(markup: str, name: str, description: str) -> str:
    """Return the picture for use inside a page. Its ids begin with `name`, so that they are unique in the page."""
    root = ET.fromstring(markup)
    _remove_unknown(root)
    _round_numbers(root)
    _join_paths(root)
    _rename_ids(root, name)
    root.set("role", "img")
    root.set("aria-label", description)
    root.set("class", "picture")
    return ET.tostring(root, encoding="unicode")


def as_file(picture: str) -> str:
    """Return the picture for use as a file: with its namespace and a style for light and dark backgrounds."""
    start = picture.index(">") + 1
    head = picture[:start].replace("<svg", f'<svg xmlns="{NAMESPACE}"', 1)
    return f"{head}<style>{_FILE_STYLE}</style>{picture[start:]}\n"


def _remove_unknown(element: ET.Element) -> None:
    element.tag = element.tag.rpartition("}")[2]
    for attribute in list(element.attrib):
        value = element.attrib[attribute]
        outside = "url(" in value and not LOCAL_URL.fullmatch(value)
        if attribute not in ATTRIBUTES or outside:
            del element.attrib[attribute]
    for child in list(element):
        if child.tag.rpartition("}")[2] not in ELEMENTS or _is_invisible(child):
            element.remove(child)
        else:
            _remove_unknown(child)


def _round_numbers(root: ET.Element) -> None:
    """A tenth of a pixel is enough."""
    for element in root.iter():
        for attribute in _POSITIONS & element.attrib.keys():
            element.set(attribute, _LONG_NUMBER.sub(r"\1", element.attrib[attribute]))


def _join_paths(element: ET.Element) -> None:
    """Neighbouring paths that differ in their lines alone are one path: a heat map has thousands."""
    before: ET.Element | None = None
    for child in list(element):
        _join_paths(child)
        lines = child.get("d")
        if before is not None and lines and child.tag == "path" and _look(child) == _look(before):
            before.set("d", before.attrib["d"] + lines)
            element.remove(child)
        else:
            before = child if child.tag == "path" and lines and _is_opaque(child) else None


def _look(path: ET.Element) -> dict[str, str]:
    return {name: value for name, value in path.attrib.items() if name != "d"}


def _is_opaque(path: ET.Element) -> bool:
    """Whether it looks the same as a part of a longer path; overlapping parts would not if it were translucent."""
    return not {"transform", "opacity", "fill-opacity", "stroke-opacity", "id"} & path.attrib.keys()


def _is_invisible(element: ET.Element) -> bool:
    """Whether an element is invisible: Vega writes empty frames and labels that it does not show."""
    return (
        element.get("display") == "none"
        or element.get("opacity") == "0"
        or (element.get("class") == "background" and "fill" not in element.attrib and "stroke" not in element.attrib)
    )


def _rename_ids(root: ET.Element, name: str) -> None:
    for element in root.iter():
        for attribute, value in element.attrib.items():
            if attribute == "id":
                element.set("id", f"{name}-{value}")
            elif LOCAL_URL.fullmatch(value):
                element.set(attribute, f"url(#{name}-{value[5:]}")
