"""The type of decoded JSON."""

from typing import Any

# Any: the json library gives values whose types only the reader of a document knows.
JsonObject = dict[str, Any]
