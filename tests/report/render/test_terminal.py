"""The summary in a terminal, in a pipe, and without colours."""

import io
import re

import pytest
from rich.console import Console

from mqlab.events.folder import RunFolder
from mqlab.report import print_summary
from report.conftest import Write
from report.synthetic_runs import SyntheticRuns


def summary(folder: RunFolder, *, coloured: bool = False) -> str:
    out = io.StringIO()
    terminal = Console(file=out, force_terminal=True, color_system="standard", width=120)
    print_summary(folder, terminal if coloured else Console(file=out))
    return out.getvalue()


def test_matrix_audit_and_verdicts(whole_run: RunFolder) -> None:
    text = summary(whole_run)
    assert "HornetQ, ActiveMQ, SwiftMQ and OpenMQ through JMS, scale quick" in text
    row = next(line for line in text.splitlines() if line.strip().startswith("G "))
    assert row.split() == ["G", "9,067", "107", "301", "268", "9,512", "±", "95.1"]
    assert "≥ 98,123,456 ± 981 k" in text
    assert "Delivery audit: 24 of 24 runs clean; 0 lost" in text
    lines = text.splitlines()
    claim = lines.index("Transactions of ten raise the rate of persistent messages.")
    assert lines[claim + 1] == "  published: holds 3, refuted 1"
    words = "measured 1.87 times (1.86 to 1.89), needed more than 1"
    assert lines[claim + 2] == f"  embedded, measured here: holds; {words}"
    assert "5 hold; 1 refuted, 3 inconclusive, 17 not testable here" in text


def test_the_answer_comes_first(whole_run: RunFolder) -> None:
    assert summary(whole_run).startswith("The highest rate at the consumers of embedded is")


def test_an_undecided_verdict_says_what_is_missing(made: SyntheticRuns, write: Write) -> None:
    for row in made.rows["measures"]:
        row["ci95"] = row["value"] * 0.2
    text = " ".join(summary(write(made)).split())
    assert re.search(r"about (\d+) more minutes?: mqlab run jms-four-brokers --minutes \1", text)


def test_published_and_measured_are_labelled(whole_run: RunFolder) -> None:
    assert "published        published     published    published          measured here" in summary(whole_run)


def test_a_pipe_gets_plain_text_that_is_not_cut(whole_run: RunFolder) -> None:
    text = summary(whole_run)
    assert "\x1b" not in text
    assert "…" not in text


def test_no_color_is_obeyed(whole_run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    coloured = summary(whole_run, coloured=True)
    monkeypatch.setenv("NO_COLOR", "1")
    plain = summary(whole_run, coloured=True)
    assert "\x1b[32m" in coloured
    assert not [code for code in ("\x1b[3", "\x1b[9", ";3") if code in plain]


def test_the_width_of_the_console_is_left_as_it_was(whole_run: RunFolder) -> None:
    console = Console(file=io.StringIO())
    width = console.width
    print_summary(whole_run, console)
    assert console.width == width


def test_an_output_that_knows_only_ascii(whole_run: RunFolder) -> None:
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding="ascii", errors="strict") as out:
        print_summary(whole_run, Console(file=out))
        out.flush()
        text = raw.getvalue().decode("ascii")
    assert ">= 98,123,456 +- 981 k" in text


def test_spoiled_runs_are_named_with_their_reason(made: SyntheticRuns, write: Write) -> None:
    made.drop("H")
    made.run("H", status="void", reason="counts disagree", rate=7654321.0)
    text = summary(write(made))
    assert "! 1 run of 22 did not pass the audit and counts for no figure." in text
    assert "run 22, H, embedded: void, counts disagree" in text
    assert "7,654,321" not in text
    row = next(line for line in text.splitlines() if line.strip().startswith("H "))
    assert row.rstrip().endswith("n/a, no valid run")


def test_names_are_neither_markup_nor_control_codes(made: SyntheticRuns, write: Write) -> None:
    name = "[bold]x[/bold] \x1b[31mred"
    made.meta["systems"][0]["name"] = name
    for rows in made.rows.values():
        for row in rows:
            row["system"] = name
    text = summary(write(made))
    assert "[bold]x[/bold]" in text
    assert "\x1b" not in text


def test_stamps_stand_beside_the_system(made: SyntheticRuns, write: Write) -> None:
    made.meta["systems"][0]["stamps"] = ["sync: off"]
    text = summary(write(made))
    assert "[sync: off]" in text
    assert "! embedded was run with: sync: off." in text
