"""`mqlab studies`: list the built-in studies."""

from mqlab.cli.options import JsonOption
from mqlab.cli.terminal.console import Exit, fail, say, show, show_json, table_of
from mqlab.study import Study, StudyError, built_in_studies, load_study


def studies(as_json: JsonOption = False) -> None:
    """List the built-in studies, which run by name."""
    try:
        loaded = [load_study(name) for name in built_in_studies()]
    except StudyError as error:
        fail(str(error), Exit.USAGE)
    if as_json:
        show_json({"studies": [_document(study) for study in loaded]})
        return
    head = ("study", "title", "scenarios", "published systems", "published values", "claims")
    show(table_of(head, map(_row, loaded)))
    say("Your own study is a file: mqlab init writes an example, mqlab plan FILE shows its runs.")


def _row(study: Study) -> tuple[str, ...]:
    counts = (str(len(study.published)), str(len(study.claims)))
    return (study.id, study.title, " ".join(study.scenarios), ", ".join(study.systems_published), *counts)


def _document(study: Study) -> dict[str, object]:
    return {
        "study": study.id,
        "title": study.title,
        "source": study.source.title if study.source else None,
        "scenarios": {scenario.name: scenario.title for scenario in study.scenarios.values()},
        "systems_published": list(study.systems_published),
        "published_values": len(study.published),
        "claims": len(study.claims),
    }
