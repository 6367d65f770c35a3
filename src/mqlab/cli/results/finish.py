"""The end of `run`, `report` and `compare`: files for other programs, and the exit code of all that was found."""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from mqlab.cli.results.gates import exit_with_gates, judged_gates
from mqlab.cli.terminal.console import Exit, fail, io_reason, say, show_json
from mqlab.cli.terminal.exit_status import exit_with_status
from mqlab.events.folder import RunFolder
from mqlab.report import as_json as document
from mqlab.report import gates_json
from mqlab.report.capacity.trials import searches
from mqlab.report.data.run_results import RunResults
from mqlab.report.export.csv_file import measures_csv
from mqlab.report.export.hdr_log import hdr_log
from mqlab.report.export.junit import junit_xml, run_suite
from mqlab.report.export.openmessaging import openmessaging_files
from mqlab.report.export.summary import summary_page
from mqlab.report.render import markdown
from mqlab.study.language.gate import Gate

_PANEL: Final = "Files for other programs"
JunitOption = Annotated[
    Path | None,
    typer.Option("--junit", metavar="FILE", rich_help_panel=_PANEL, help="Gates and audits as JUnit XML."),
]
MarkdownOption = Annotated[
    Path | None,
    typer.Option(
        "--markdown", metavar="FILE", rich_help_panel=_PANEL,
        help="A short page for a pull request; also appended to $GITHUB_STEP_SUMMARY.",
    ),
]  # fmt: skip
CsvOption = Annotated[
    Path | None, typer.Option("--csv", metavar="FILE", rich_help_panel=_PANEL, help="The figures as CSV.")
]
OpenMessagingOption = Annotated[
    Path | None,
    typer.Option(
        "--openmessaging", metavar="DIR", rich_help_panel=_PANEL,
        help="Result files of the OpenMessaging Benchmark, one for each point and system.",
    ),
]  # fmt: skip
HdrLogOption = Annotated[
    Path | None,
    typer.Option("--hdr-log", metavar="FILE", rich_help_panel=_PANEL, help="Latencies as an HdrHistogram log."),
]
_STEP_SUMMARY: Final = "GITHUB_STEP_SUMMARY"


@dataclass(frozen=True)
class OutputFiles:
    """The files that the user asked for. `check` before a long run whether they can be written."""

    junit: Path | None = None
    markdown: Path | None = None
    csv: Path | None = None
    openmessaging: Path | None = None
    hdr_log: Path | None = None

    def check(self) -> None:
        for path in (self.junit, self.markdown, self.csv, self.hdr_log):
            if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
                fail(f"{path}: a file cannot be written there", Exit.USAGE)
        if self.openmessaging is not None and self.openmessaging.exists() and not self.openmessaging.is_dir():
            fail(f"{self.openmessaging}: not a folder", Exit.USAGE)

    def write(
        self, results: Sequence[RunResults], junit: Callable[[], str], page: Callable[[], str], csv: Callable[[], str]
    ) -> None:
        """Write the files that are asked for, of one run or several. Ends the command on an error."""
        texts = ((self.junit, junit), (self.markdown, page), (self.csv, csv), (self.hdr_log, lambda: hdr_log(results)))
        try:
            for path, text in texts:
                if path is not None:
                    path.write_text(text(), encoding="utf-8")
                    say(f"written: {path}")
            if self.openmessaging is not None:
                self._write_openmessaging(self.openmessaging, results)
            if summary := os.environ.get(_STEP_SUMMARY):
                with Path(summary).open("a", encoding="utf-8") as file:
                    file.write(page())
        except OSError as error:
            fail(f"a file cannot be written: {io_reason(error)}", Exit.INTERNAL)

    @staticmethod
    def _write_openmessaging(folder: Path, results: Sequence[RunResults]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for run in results:
            for name, content in openmessaging_files(run):
                (folder / name).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        say(f"written: {folder}")


def finish_runs(folders: Sequence[RunFolder], gates: Sequence[Gate], outputs: OutputFiles, *, as_json: bool) -> None:
    """Print the JSON document, write files, and end the command with the exit code of audits, gates and searches."""
    results = [RunResults.of(folder) for folder in folders]
    verdicts = judged_gates(results, gates, quiet=as_json)
    runs = list(zip(results, verdicts, strict=True))
    if as_json:
        documents = [
            document(run.folder) | {"gates": gates_json([one for one in judged if not one.gate.is_goal])}
            for run, judged in runs
        ]
        show_json(documents[0] if len(documents) == 1 else {"studies": documents})
    outputs.write(
        results,
        lambda: junit_xml([run_suite(run, judged) for run, judged in runs]),
        lambda: "\n".join(markdown.render(summary_page(run, judged)) for run, judged in runs),
        lambda: measures_csv(results),
    )
    exit_with_status(folders)
    exit_with_gates(
        [verdict for judged in verdicts for verdict in judged], [search for run in results for search in searches(run)]
    )
