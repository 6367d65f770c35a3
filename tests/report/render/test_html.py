"""The HTML page: every exhibit, every figure with its label, and nothing that reaches outside."""

import re

import pytest

from mqlab.events.folder import RunFolder
from mqlab.report import write_report
from mqlab.report.data.run_results import RunResults
from report.conftest import Write
from report.html_report import ReadPage
from report.synthetic_runs import RATES, SyntheticRuns, add_system

MATRIX = "Appendix 2: Raw data"
AUDIT = "Delivery audit, run by run, measured here"
HOSTILE = "<img src=x onerror=alert(1)>\"'&{{7*7}}</script>"


def page_of(made: SyntheticRuns, write: Write) -> ReadPage:
    return ReadPage.of(write_report(write(made)))


def scripts(page: ReadPage) -> list[str | None]:
    """The types of its scripts: data is text/plain, and only a script without a type runs."""
    return [attributes.get("type") for tag, attributes in page.tags if tag == "script"]


def test_every_exhibit_is_there_under_its_title(whole_run: RunFolder, whole_page: ReadPage) -> None:
    study = RunResults.of(whole_run).study
    tables = {table.title for table in whole_page.tables}
    for exhibit in study.exhibits:
        for title in [exhibit.title_for(name) for name in RATES] if exhibit.each else [exhibit.title]:
            shown = tables if exhibit.form in ("matrix", "summary", "settings", "table") else whole_page.figures
            assert title in shown


def test_scenarios_have_latency_and_second_by_second_charts(whole_page: ReadPage) -> None:
    for scenario in RATES:
        assert f"{scenario}: latency, measured here" in whole_page.figures
        assert f"{scenario}: second by second, measured here" in whole_page.figures


def test_published_figures_stand_in_the_matrix_as_printed(whole_run: RunFolder, whole_page: ReadPage) -> None:
    table = whole_page.table(MATRIX)
    assert table.head == ["System", *"ABCDEFGH"]
    printed = [value for value in RunResults.of(whole_run).study.published if value.table == MATRIX]
    assert len(printed) == 32
    for value in printed:
        row = table.row(value.system)
        assert row[0] == f"{value.system} published"
        assert row[table.head.index(value.scenario)] == f"{int(value.text):,}"


def test_measured_figures_stand_in_the_matrix_with_their_interval(whole_page: ReadPage) -> None:
    table = whole_page.table(MATRIX)
    row = table.row("embedded")
    assert row[0] == "embedded measured here"
    for scenario, rate in RATES.items():
        bound = "≥ " if scenario in "AB" else ""
        half = f"{rate / 100:,.0f}" if rate / 100 >= 100 else f"{rate / 100:.1f}"
        assert row[table.head.index(scenario)] == f"{bound}{rate:,.0f} ± {half}"


def test_every_figure_of_the_matrix_stands_in_its_bar_chart(whole_run: RunFolder, whole_page: ReadPage) -> None:
    results = RunResults.of(whole_run)
    for scenario, rate in RATES.items():
        picture = next(says for says in whole_page.pictures if says.startswith(f"Benchmark {scenario}, messages/s"))
        for system in results.study.systems_published:
            value = results.study.published_value(system, results.points_of(scenario)[0], "rate.received")
            assert f"{system}, published: {value:,.0f}" in picture
        assert re.search(rf"embedded, measured here: (≥ )?{rate:,.0f}", picture)


def test_ratios_say_that_they_are_computed(whole_page: ReadPage) -> None:
    table = whole_page.table("embedded, measured here, as a multiple of the published figure")
    assert table.row("HornetQ 2.1.1")[-2:] == ["1.05 \u00d7", "1.08 \u00d7"]
    assert "Computed in this report" in whole_page.text


def test_scenario_summary_has_the_studys_columns(whole_page: ReadPage) -> None:
    table = whole_page.table("Appendix 3: Scenario summary")
    assert table.head[1:] == ["Destination Type", "Durability", "Msg Size", "Producers", "Consumers", "ACK Mode"]
    assert table.row("A")[1:] == ["Topic", "NP", "12 bytes", "1", "1", "Auto"]
    assert table.row("H")[1:] == ["40 Queues", "P", "1 kiB", "40", "40", "TX (10 msgs)"]


def test_settings_of_published_systems_and_of_ours(whole_page: ReadPage) -> None:
    table = whole_page.table("Appendix 1: Configuration changes")
    assert ["HornetQ 2.1.1 published", "journal-min-files", "100", "none stated"] in table.rows
    assert ["embedded measured here", "sync", "on", ""] in table.rows


def test_the_answer_comes_first_and_the_parts_are_in_order(whole_page: ReadPage) -> None:
    assert whole_page.titles[:2] == ["HornetQ, ActiveMQ, SwiftMQ and OpenMQ through JMS", "Answer"]
    parts = ("Answer", "Compare", "Scenarios", "Evidence", "Setup")
    assert [title for title in whole_page.titles if title in parts] == [*parts]
    words = whole_page.text
    assert words.index("The highest rate at the consumers of embedded is") < words.index("24 of 24 runs clean")
    assert "24 of 24 runs clean" in whole_page.text
    assert "≥ 98.1 M messages/s" in whole_page.text
    assert "Scale quick: 250ms to 2s measured a run, not the study's own 1000s." in whole_page.text


def test_machine_versions_and_command(whole_page: ReadPage) -> None:
    assert ["cpu", "Imaginary CPU 3.0 GHz"] in whole_page.table("Machine").rows
    assert ["memory", "8 GiB"] in whole_page.table("Machine").rows
    assert ["pyspark", "4.0.0"] in whole_page.table("Packages").rows
    assert ["command", "mqlab run jms-four-brokers --scale quick"] in whole_page.table("Run").rows


def test_travel_connections_and_bound_stand_beside_the_rate(whole_page: ReadPage) -> None:
    table = whole_page.table("Every point, measured here, with the conditions of its rate")
    first = dict(zip(table.head, table.row("A"), strict=True))
    assert first["Received, messages/s"] == "≥ 21,345,678 ± 213,457"
    assert (first["Messages travelled"], first["Connections"], first["Send"]) == ("n/a not recorded", "each", "free")
    assert (first["Bound by"], first["Runs"]) == ("lab a lower bound", "3 of 3 valid")
    assert dict(zip(table.head, table.row("G"), strict=True))["Bound by"] == "disk"


def test_what_was_not_measured_is_not_zero(whole_page: ReadPage) -> None:
    table = whole_page.table("CPU, memory and syncs, measured here")
    assert dict(zip(table.head, table.row("A"), strict=True))["Syncs"] == "n/a not measured"
    assert dict(zip(table.head, table.row("G"), strict=True))["Syncs"] == "250 1/s ± 2.5"


def test_verdicts_are_shown_for_published_and_measured(whole_page: ReadPage) -> None:
    table = whole_page.table("Each claim, on the published figures and on ours")
    assert table.head == ["Claim", "On the published figures", "embedded, measured here"]
    row = table.row("Transactions of ten raise the rate of persistent messages. ")
    assert row[1] == "holds for HornetQ 2.1.1, ActiveMQ 5.3.2 and SwiftMQ 7.6refuted for OpenMQ 4.4"
    assert row[2] == "holds measured 1.87 times (1.86 to 1.89), needed more than 1"


def test_nothing_refers_outside(whole_page: ReadPage) -> None:
    for tag, attributes in whole_page.tags:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form", "image", "use")
        assert not attributes.keys() & {"src", "srcset", "action", "data", "poster", "xlink:href", "style"}
        assert not any(name.startswith("on") for name in attributes)
        if "href" in attributes:
            assert (attributes["href"] or "").startswith("#")
    assert "http://" not in whole_page.source
    assert "https://" not in whole_page.source
    assert "@import" not in whole_page.source


def test_contents_lead_somewhere_and_ids_are_unique(whole_page: ReadPage) -> None:
    ids = [attributes["id"] for _, attributes in whole_page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [attributes["href"] or "" for _, attributes in whole_page.tags if "href" in attributes]
    assert len(links) > 10
    assert {link[1:] for link in links} <= set(ids)


def test_the_only_scripts_are_the_pages_own(whole_page: ReadPage) -> None:
    assert scripts(whole_page) == ["text/plain", "text/plain", None]
    policy = next(a["content"] for _, a in whole_page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    own = "'sha256-[\\w+/]{43}='"
    assert re.fullmatch(f"default-src 'none'; style-src 'unsafe-inline'; script-src {own} {own}", policy)


def test_names_and_reasons_cannot_inject_markup(small: SyntheticRuns, write: Write) -> None:
    small.meta["systems"] = [
        {"name": HOSTILE, "version": HOSTILE, "settings": {HOSTILE: HOSTILE}, "stamps": [HOSTILE + "\x1b[31m"]}
    ]
    small.meta["machine"] = {HOSTILE: HOSTILE}
    small.meta["command"] = HOSTILE
    for rows in small.rows.values():
        for row in rows:
            row["system"] = HOSTILE
    small.rows["audits"][0].update(status="void", reason=HOSTILE)
    page = page_of(small, write)
    assert scripts(page) == ["text/plain", "text/plain", None]
    assert not [tag for tag, _ in page.tags if tag == "img"]
    assert page.text.count(HOSTILE) > 20
    assert "\x1b" not in page.source


def test_a_stamp_stands_in_every_table_its_system_is_in(small: SyntheticRuns, write: Write) -> None:
    small.meta["systems"][0]["stamps"] = ["sync: off"]
    page = page_of(small, write)
    found = 0
    for table in page.tables:
        for row, stamps in zip(table.rows, table.stamps, strict=True):
            if any(re.match(r"embedded( |$)|all systems .*measured here", cell) for cell in row):
                assert stamps == ["sync: off"], table.title
                found += 1
        for head in [*table.head, table.title]:
            assert not head.startswith("embedded") or "[sync: off]" in head
    assert found > 10
    assert "embedded was run with: sync: off." in page.text


def test_void_and_incomplete_runs_show_a_reason_and_no_number(small: SyntheticRuns, write: Write) -> None:
    small.drop("H")
    small.run("H", status="void", reason="counts disagree", rate=7654321.0, delivered=987654)
    small.run("H", 2, status="incomplete", reason="interrupted", sent=None, delivered=None)
    page = page_of(small, write)
    table = page.table(AUDIT)
    for row in table.rows[-2:]:
        assert row[1] == "H"
        assert set(row[5:-1]) <= {"n/a void", "n/a incomplete"}
    assert [row[-1] for row in table.rows[-2:]] == ["counts disagree", "interrupted"]
    assert "7,654,321" not in page.text
    assert "987,654" not in page.text
    cell = page.table(MATRIX).row("embedded")[-1]
    assert cell == "n/a no valid run; void: counts disagree; incomplete: interrupted"
    assert "2 runs of 5 did not pass the audit and count for no figure." in page.text
    assert "H: latency, measured here" not in page.figures


def test_a_failed_audit_shows_the_counts_that_failed_it(small: SyntheticRuns, write: Write) -> None:
    small.rows["audits"][2].update(status="failed", reason="3 lost", lost=3, delivered=997)
    page = page_of(small, write)
    row = dict(zip(page.table(AUDIT).head, page.table(AUDIT).rows[2], strict=True))
    assert (row["Audit"], row["Lost"], row["Rate, messages/s"]) == ("failed", "3", "n/a failed")
    assert "5 of 6 runs clean" in page.text


def test_a_run_that_was_cut_short_says_so(small: SyntheticRuns, write: Write) -> None:
    small.meta["status"] = "incomplete"
    small.drop("H")
    page = page_of(small, write)
    assert "This run is incomplete" in page.text
    assert page.table(MATRIX).row("embedded")[2] == "n/a not run"


def test_nothing_measured_is_still_a_report(small: SyntheticRuns, write: Write) -> None:
    for scenario in RATES:
        small.drop(scenario)
    page = page_of(small, write)
    assert page.table(MATRIX).row("embedded")[1:] == ["n/a not run"] * 2
    assert "nothing was audited" in page.text


def test_two_systems_have_a_row_each(small: SyntheticRuns, write: Write) -> None:
    small.meta["systems"].append({"name": "ActiveMQ 5.3.2", "version": "", "settings": {}, "stamps": []})
    add_system(small, "ActiveMQ 5.3.2", 0.5)
    page = page_of(small, write)
    rows = [row[0] for row in page.table(MATRIX).rows]
    assert rows[-2:] == ["embedded measured here", "ActiveMQ 5.3.2 measured here"]
    assert "ActiveMQ 5.3.2 published" in rows
    picture = next(says for says in page.pictures if says.startswith("Benchmark H"))
    assert "ActiveMQ 5.3.2, published: 317" in picture
    assert "ActiveMQ 5.3.2 (measured here), measured here: 8,917" in picture


def test_a_figure_of_one_run_says_what_its_interval_rests_on(small: SyntheticRuns, write: Write) -> None:
    note = "one run: the interval is that of a run by the noise of the system's other points."
    assert note not in page_of(small, write).text
    for row in small.rows["measures"]:
        row["runs"] = 1
    page = page_of(small, write)
    assert page.table(MATRIX).row("embedded")[2].endswith(", one run")
    assert note in page.text


@pytest.mark.parametrize("ci95", [None, 1e12])
def test_an_unknown_or_huge_interval_breaks_nothing(small: SyntheticRuns, write: Write, ci95: float | None) -> None:
    for row in small.rows["measures"]:
        row["ci95"] = ci95
    page = page_of(small, write)
    shown = "17,834 one run, no interval" if ci95 is None else "not known the interval is wider than the figure"
    assert page.table(MATRIX).row("embedded")[2] == shown
