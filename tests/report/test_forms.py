"""Tables, lines, grouped bars and time series of a study: exact cells, labels and flags."""

from pathlib import Path

import pytest

from mqlab.report import write_report
from mqlab.report.data.run_results import RunResults
from mqlab.report.exhibits.table import table
from mqlab.report.render.content import Table

from .html_report import ReadPage
from .sweep_study import FIRST, OURS, SCAN, SECOND, sweeps
from .synthetic_runs import SyntheticRuns


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> SyntheticRuns:
    made = sweeps(tmp_path_factory.mktemp("declared") / "study")
    for row in made.rows["measures"]:
        row["client_cpu"] = (row["scenario"] == "flow" and row["system"] == OURS) or None
    return made


@pytest.fixture(scope="module")
def results(made: SyntheticRuns, tmp_path_factory: pytest.TempPathFactory) -> RunResults:
    return RunResults.of(made.write(tmp_path_factory.mktemp("runs") / "run"))


@pytest.fixture(scope="module")
def page(results: RunResults) -> ReadPage:
    return ReadPage.of(write_report(results.folder))


def shown(results: RunResults, title: str) -> Table:
    exhibit = next(exhibit for exhibit in results.study.exhibits if exhibit.title == title)
    (found,) = table(results, exhibit, "")
    assert isinstance(found, Table)
    return found


def cells(found: Table) -> dict[str, list[str]]:
    return {row.cells[0].text: [cell.full_text for cell in row.cells[1:]] for row in found.rows}


def column(found: Table, group: str, head: str) -> list[str]:
    place = found.full_head.index(f"{group}: {head}")
    return [row.cells[place].full_text for row in found.rows]


class TestTable:
    def test_each_figure_has_a_column_of_every_system_beside_what_was_published(self, results: RunResults) -> None:
        found = shown(results, "Table 3")
        assert found.head[0] == "Preloaded messages"
        assert found.head[1:5] == (
            f"{FIRST} (published)",
            "embedded (measured here)",
            f"{SECOND} (published)",
            f"{SCAN} (measured here)",
        )
        assert found.groups == (("", 1), ("Messages/s", 4), ("Ratio", 2), ("% faster", 4), ("Impact%", 3))

    def test_published_values_are_as_printed_and_ours_have_intervals(self, results: RunResults) -> None:
        rows = cells(shown(results, "Table 3"))
        assert rows["0"][:4] == ["498.6", "5,000 (± 100)", "122.3", "1,250 (± 25)"]
        assert rows["50"][:4] == ["490", "4,900 (± 98)", "71.2", "500 (± 10)"]

    def test_a_point_that_a_shorter_scale_leaves_out_keeps_its_published_values(self, results: RunResults) -> None:
        missing = "n/a (not part of the scale quick)"
        assert cells(shown(results, "Table 3"))["1,000"][:4] == ["376.5", missing, "n/a (printed as N/A)", missing]

    def test_what_was_neither_printed_nor_run_has_no_row_and_no_column(self, results: RunResults) -> None:
        found = shown(results, "Table 3")
        assert [row.cells[0].text for row in found.rows] == ["0", "50", "1,000"]
        assert any(note.startswith("The study in full has 1 further row here") for note in found.notes)
        assert f"Impact%: {FIRST} (published)" not in found.full_head

    def test_ratios_compare_the_two_stand_ins(self, results: RunResults) -> None:
        found = shown(results, "Table 3")
        assert column(found, "Ratio", f"{FIRST} / {SECOND} (published)")[:2] == ["4.1 \u00d7", "n/a (not published)"]
        assert column(found, "Ratio", f"{OURS} / {SCAN} (measured here)")[:2] == [
            "4 \u00d7 (± 0.12)",
            "9.8 \u00d7 (± 0.294)",
        ]

    def test_percent_faster_stands_only_with_the_one_that_is_ahead(self, results: RunResults) -> None:
        found = shown(results, "Table 3")
        assert column(found, "% faster", f"{FIRST} (published)") == ["308", "", ""]
        assert column(found, "% faster", f"{SECOND} (published)") == ["", "", "908"]
        assert column(found, "% faster", f"{OURS} (measured here)")[:2] == ["300 (297 to 303)", "880 (877 to 883)"]
        assert column(found, "% faster", f"{SCAN} (measured here)")[:2] == ["", ""]

    def test_impacts_have_their_sign_and_the_base_says_so(self, results: RunResults) -> None:
        found = shown(results, "Table 3")
        assert column(found, "Impact%", f"{SECOND} (published)")[:2] == ["base", "-41.7"]
        assert column(found, "Impact%", f"{SCAN} (measured here)")[:2] == ["base", "-60 (± 3)"]
        assert column(found, "Impact%", f"{OURS} (measured here)")[1] == "-2 (± 3)"

    def test_peaks_have_their_setting_in_brackets(self, results: RunResults) -> None:
        found = shown(results, "Table 4")
        assert column(found, "KB/s", f"{FIRST} (published)") == ["n/a (not published)", "1,510.6 KB/s (2)"]
        assert column(found, "KB/s", f"{OURS} (measured here)") == ["400 kB/s (4) (± 8)", "4.1 MB/s (4) (± 0.0819)"]
        assert (
            column(found, "Bytes of round trips: ratio", f"{OURS} / {SCAN} (measured here)")[0] == "2 \u00d7 (± 0.06)"
        )

    def test_parameters_that_would_share_a_row_become_columns(self, results: RunResults) -> None:
        found = shown(results, "Table 5")
        assert found.head[:3] == ("Threads per client", "Clients", "Message size")
        assert len(found.rows) == 8
        assert found.rows[0].cells[3].full_text == "1 ms (± 0.02)"

    def test_scenarios_that_are_no_row_have_columns_of_their_own(self, results: RunResults) -> None:
        found = shown(results, "Both")
        assert [text for text, _ in found.groups[1:]] == [
            "bulk: Rate at the consumers, messages/s",
            "flow: Rate at the consumers, messages/s",
        ]

    def test_busy_agents_flag_the_figures_and_the_table_says_why(self, results: RunResults) -> None:
        found = shown(results, "Both")
        flagged = [cell.text for row in found.rows for cell in row.cells if cell.text.endswith(" *")]
        assert set(flagged) == {"1,000 *"}
        assert any(note.startswith("* In these runs an agent") for note in found.notes)
        assert not any(note.startswith("*") for note in shown(results, "Table 3").notes)

    def test_it_says_who_stands_for_whom(self, results: RunResults) -> None:
        assert f"{SCAN} was run in place of {SECOND}." in shown(results, "Table 3").notes

    def test_the_page_has_the_groups_above_the_heads(self, page: ReadPage) -> None:
        found = page.table("Table 3")
        assert found.groups == ["", "Messages/s", "Ratio", "% faster", "Impact%"]
        assert found.head[1] == f"{FIRST} (published)"
        assert found.row("0")[1:3] == ["498.6", "5,000 ± 100"]


class TestPictures:
    def test_lines_say_every_line_with_its_highest(self, page: ReadPage) -> None:
        says = next(says for says in page.pictures if says.startswith("Figure 6"))
        assert says.startswith("Figure 6: rate of round trips against preloaded messages. Published, ")
        assert f"Published, {FIRST} (here: {OURS}): highest 499 at preload=0" in says
        assert f"Measured here, {SECOND} (here: {SCAN}): highest 1,250 at preload=0" in says

    def test_two_systems_and_several_lines_have_a_panel_each(self, page: ReadPage) -> None:
        says = next(says for says in page.pictures if says.startswith("Figure 2"))
        assert "rate of round trips and CPU of the system against threads per client" in says
        assert "embedded, measured here, clients=2: highest 8,000 at threads=4" in says
        assert f"{SCAN}, measured here, clients=2: highest 4,000 at threads=4" in says
        assert "Dashed, with squares, on the right: CPU of the system" in page.text

    def test_bars_are_grouped(self, page: ReadPage) -> None:
        says = next(says for says in page.pictures if says.startswith("Bulk"))
        assert says == (
            f"Bulk, messages/s. 100B, {OURS}, measured here: 1,000 ± 20 messages/s; "
            f"100B, {SCAN}, measured here: 500 ± 10 messages/s; 1KiB, {OURS}, measured here: 1,000 ± 20 messages/s; "
            f"1KiB, {SCAN}, measured here: 500 ± 10 messages/s"
        )

    def test_time_series_mark_when_producers_were_held_back(self, page: ReadPage) -> None:
        says = next(says for says in page.pictures if says.startswith("Flow control"))
        assert "embedded: producers held back after 1.25 s" in says

    def test_a_flag_stands_with_every_picture_of_its_point(self, page: ReadPage) -> None:
        assert page.text.count("* In these runs an agent") >= 4
        assert "2 points ran with an agent busier than the study allows" in page.text


class TestClaims:
    def test_a_claim_about_published_systems_is_judged_on_their_stand_ins(self, page: ReadPage) -> None:
        found = page.table("Each claim, on the published figures and on ours")
        first, second = found.row("Alpha"), found.row("Beta")
        assert "Read as: at every depth." in first[0]
        assert first[1].startswith("not testable here"), "one of the printed values is N/A"
        assert first[2].startswith("holds measured 4 times (3.96 to 4.06), needed more than 1; embedded 1 stands for ")
        assert first[3] == "holds"
        assert second[1].startswith("refuted")
        assert second[1].endswith("The study's own figures contradict it.")
        assert second[2].startswith("refuted measured ")
        assert " % (" in second[2]


def test_an_exhibit_of_nothing_says_so(tmp_path: Path) -> None:
    made = sweeps(tmp_path / "study")
    for rows in made.rows.values():
        rows.clear()
    page = ReadPage.of(write_report(made.write(tmp_path / "run")))
    assert "Bulk: n/a, nothing was measured or published of it." in page.text
    assert "Flow control: n/a, nothing was measured of it." in page.text
    assert page.table("Table 3").row("0")[1:3] == ["498.6", "n/a not run"]
