"""Adds the pages to the documentation site that are generated from the package: the commands and the metrics.

MkDocs calls `on_files` (`hooks` in mkdocs.yml).
"""

from collections.abc import Iterator

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.main import get_command

from mqlab.cli.app import app_with
from mqlab.study import METRICS


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, lines in {"commands": commands_page(), "metrics": metrics_page()}.items():
        content = "\n".join(lines) + "\n"
        files.append(File.generated(config, f"reference/{name}.md", content=content))
    return files


def commands_page() -> Iterator[str]:
    yield "# Commands"
    yield ""
    yield "Generated from the program. Every command has `--help`."
    yield from _command(get_command(app_with()), "mqlab")


def _command(command: object, path: str) -> Iterator[str]:
    if isinstance(command, TyperGroup):
        for name, inner in command.commands.items():
            yield from _command(inner, f"{path} {name}")
        return
    assert isinstance(command, TyperCommand)
    arguments = [one for one in command.params if isinstance(one, TyperArgument)]
    options = [one for one in command.params if isinstance(one, TyperOption)]
    usage = " ".join(_argument(argument) for argument in arguments)
    yield from ("", f"## {path}", "", "```", f"{path} {'[OPTION]... ' if options else ''}{usage}".rstrip(), "```", "")
    yield command.help or ""
    parameters: list[TyperArgument | TyperOption] = [*arguments, *options]
    if rows := [(_names(one), getattr(one, "help", "") or "") for one in parameters]:
        yield from ("", "| argument or option | meaning |", "|---|---|")
        yield from (f"| {names} | {_cell(text)} |" for names, text in rows)


def _argument(argument: TyperArgument) -> str:
    # Typer writes its own form of the name.
    name = argument.metavar or (argument.name or "").upper()
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _names(parameter: TyperArgument | TyperOption) -> str:
    if isinstance(parameter, TyperArgument):
        return f"`{_argument(parameter)}`"
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    variable = f" (`{parameter.envvar}`)" if isinstance(parameter.envvar, str) else ""
    return names + variable


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def metrics_page() -> Iterator[str]:
    yield from ("# Metrics", "", "Generated from the registry of all metrics, `src/mqlab/study/metric.py`.", "")
    yield from ("| metric | unit | meaning | better |", "|---|---|---|---|")
    for name, metric in METRICS.items():
        yield f"| `{name}` | {metric.unit} | {_cell(metric.meaning)} | {metric.better or ''} |"
