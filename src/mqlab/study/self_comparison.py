"""The name of the second of two equal systems, which are compared to find false differences."""


def twin_of(label: str) -> str:
    return f"{label} again"
