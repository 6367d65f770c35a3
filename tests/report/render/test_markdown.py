"""The Markdown says what the page says."""

import re

from mqlab.events.folder import RunFolder
from mqlab.report import write_report
from report.conftest import Write
from report.html_report import ReadPage
from report.synthetic_runs import SyntheticRuns


def tables(text: str) -> list[list[str]]:
    found: list[list[str]] = [[]]
    for line in text.splitlines():
        if line.startswith("|"):
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    return [table for table in found if table]


def columns(line: str) -> int:
    return len(re.findall(r"(?<!\\)\|", line)) - 1


def plain(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def test_every_table_is_whole(whole_run: RunFolder) -> None:
    for table in tables((whole_run.report / "report.md").read_text()):
        assert len({columns(line) for line in table}) == 1, table[0]


def test_same_sections_tables_and_rows_as_the_page(whole_run: RunFolder, whole_page: ReadPage) -> None:
    text = plain((whole_run.report / "report.md").read_text())
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    assert set(whole_page.titles) <= set(titles)
    assert {table.title for table in whole_page.tables} <= set(titles)
    assert set(whole_page.figures) <= set(titles)
    # The lights, the facts and what was found are tables in Markdown only.
    assert sum(len(table) - 2 for table in tables(text)) == sum(len(t.rows) for t in whole_page.tables) + 5 + 6 + 2


def test_figures_stand_with_their_label(whole_run: RunFolder) -> None:
    text = plain((whole_run.report / "report.md").read_text())
    assert (
        "| HornetQ 2.1.1 (published) | 263,454 | 704,642 | 654,395 | 58,849 | 105,650 | 102,436 | 9,067 | 16,523 |"
        in text
    )
    assert "| embedded (measured here) | ≥ 21,345,678 (± 213,457) |" in text


def test_pictures_are_files_beside_it(whole_run: RunFolder) -> None:
    text = (whole_run.report / "report.md").read_text()
    links = re.findall(r"!\[[^\n]*\]\(([^)]*)\)", text)
    # The overview, the claims, rate against latency, the set-up, and four for each scenario.
    assert len(links) == 36
    assert {path.name for path in whole_run.report.glob("*.svg")} == set(links)


def test_names_stay_text(small: SyntheticRuns, write: Write) -> None:
    name = "a|b <script>x</script> [link](http://e) `code` ![i](j) **b**"
    small.meta["systems"][0]["name"] = name
    for rows in small.rows.values():
        for row in rows:
            row["system"] = name
    folder = write(small)
    write_report(folder)
    text = (folder.report / "report.md").read_text()
    for table in tables(text):
        assert len({columns(line) for line in table}) == 1
    assert "<script" not in text.replace("\\<script", "")
    assert "[link](" not in text.replace("\\[link\\](", "")
    assert name in plain(text)
