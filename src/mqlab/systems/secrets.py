"""Masks the values of secret settings wherever settings are printed or recorded."""

import re
from typing import Final

HIDDEN: Final = "***"
_SECRET: Final = re.compile(r"pass|secret|token|credential", re.IGNORECASE)
_ASSIGNMENT: Final = re.compile(r"([^,:=]*(?:pass|secret|token|credential)[^,=]*=)[^,]*", re.IGNORECASE)


def mask_text(text: str) -> str:
    """`NAME:setting=value,...` with the values of secret settings masked."""
    return _ASSIGNMENT.sub(rf"\1{HIDDEN}", text)


def mask_settings(settings: dict[str, str]) -> dict[str, str]:
    return {key: HIDDEN if _SECRET.search(key) else value for key, value in settings.items()}
