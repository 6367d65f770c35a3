"""What nobody must read: wherever settings are shown, written or told, passwords are not."""

import re
from typing import Final

HIDDEN: Final = "***"
_SECRET: Final = re.compile(r"pass|secret|token|credential", re.IGNORECASE)
_SET: Final = re.compile(r"([^,:=]*(?:pass|secret|token|credential)[^,=]*=)[^,]*", re.IGNORECASE)


def is_secret(setting: str) -> bool:
    return _SECRET.search(setting) is not None


def masked(text: str) -> str:
    """`NAME:setting=value,...` with the values of such settings left out."""
    return _SET.sub(rf"\1{HIDDEN}", text)


def shown(settings: dict[str, str]) -> dict[str, str]:
    return {key: HIDDEN if is_secret(key) else value for key, value in settings.items()}
