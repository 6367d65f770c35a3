"""The names of systems and studies, which a shell completes as it does commands and options.

The registries have them, so nothing else is imported before the shell asks.
"""

from collections.abc import Iterable


def complete_system(incomplete: str) -> list[str]:
    """Names of systems; a setting that follows a name is not completed."""
    from mqlab.systems import SYSTEMS

    return _beginning_with(incomplete, SYSTEMS)


def complete_study(incomplete: str) -> list[str]:
    """Names of built-in studies. The shell completes files by itself where it finds none."""
    from mqlab.study.reader import built_in_studies

    return _beginning_with(incomplete, built_in_studies())


def _beginning_with(incomplete: str, names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))
