"""The report in a browser: its first screen, tabs and charts, by pointer and by keyboard."""

import csv
import os
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from mqlab.events.folder import RunFolder
from mqlab.report import write_report
from mqlab.study import built_in_studies, load_study
from report.fabricated import fabricated
from report.synthetic_runs import add_latency_slots, add_system, cut_down

from .conftest import Open, Scheme, violations

TABS = ("Answer", "Compare", "Scenarios", "Evidence", "Setup")
MOST_BYTES = 1_500_000
MOST_SCREENS = 3
# What a browser reads before it can draw the first screen: it parses some MB in a second, even on a slow machine.
MOST_FIRST_BYTES = 60_000
MOST_FIRST_ELEMENTS = 300


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of two systems in two scenarios."""
    made = cut_down(tmp_path_factory.mktemp("declared") / "two", "AH")
    made.meta["systems"].append({"name": "other", "version": "1", "settings": {}, "stamps": []})
    add_system(made, "other", 0.5)
    for row in made.rows["measures"]:
        row["bound_by"] = "broker"
    add_latency_slots(made, "A", fault="kill broker")
    return write_report(made.write(tmp_path_factory.mktemp("runs") / "two"))


# `make test-pages` opens those of all studies.
STUDIES = built_in_studies() if os.environ.get("MQLAB_TEST_PAGES") == "all" else []


@pytest.fixture(scope="module", params=["whole", *STUDIES])
def study_page(request: pytest.FixtureRequest, whole_run: RunFolder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if request.param == "whole":
        return whole_run.report / "index.html"
    made = fabricated(load_study(request.param))
    return write_report(made.write(tmp_path_factory.mktemp("runs") / str(request.param)))


def is_on_screen(page: Page, locator: Locator) -> bool:
    box, size = locator.bounding_box(), page.viewport_size
    assert box is not None
    assert size is not None
    return box["y"] >= 0 and box["y"] + box["height"] <= size["height"] and box["x"] + box["width"] <= size["width"]


def tab(page: Page, name: str) -> Locator:
    return page.get_by_role("tab", name=name, exact=True)


def chart(page: Page, name: str) -> Locator:
    figure = page.locator(f"#figure-{name}")
    figure.scroll_into_view_if_needed()
    expect(figure.get_by_role("button", name="Enlarge")).to_be_visible()
    return figure


def live(figure: Locator) -> Locator:
    """The chart as Vega draws it, once the pointer is there."""
    figure.locator(".picture-frame").hover()
    expect(figure.locator(".live svg")).to_be_visible()
    return figure.locator(".live")


class TestFirstScreen:
    def test_it_is_the_beginning_of_the_file_and_waits_for_no_script(self, study_page: Path, open_page: Open) -> None:
        """So it is drawn long before a second is over, which no test can measure on a busy machine."""
        text = study_page.read_bytes()
        first = text[: text.index(b"</header>")]
        assert len(first) <= MOST_FIRST_BYTES
        assert first.count(b"<") <= MOST_FIRST_ELEMENTS
        assert not any(late in first for late in (b"<script", b"<svg", b"<link", b"@import", b"url("))
        page = open_page(study_page, script=False)
        assert is_on_screen(page, page.locator(".answer").first)
        assert is_on_screen(page, page.locator(".lights"))

    def test_every_study_answers_on_the_first_screen_and_is_short(self, study_page: Path, open_page: Open) -> None:
        assert study_page.stat().st_size <= MOST_BYTES
        for width, height in ((1400, 900), (390, 844)):
            page = open_page(study_page, width=width, height=height)
            assert is_on_screen(page, page.locator(".answer").first)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        page = open_page(study_page)
        for name in TABS:
            tab(page, name).click()
            assert page.evaluate("document.documentElement.scrollHeight") <= MOST_SCREENS * 900, name

    @pytest.mark.parametrize("width", [360, 3840])
    def test_any_width(self, two: Path, open_page: Open, width: int) -> None:
        page = open_page(two, width=width)
        for name in TABS:
            assert is_on_screen(page, tab(page, name)), name
            tab(page, name).click()
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name

    def test_who_is_faster_in_each_scenario(self, two: Path, open_page: Open) -> None:
        answers = open_page(two).locator(".answer").all_inner_texts()
        assert answers[0].startswith("embedded is first: its rate at the consumers is 2 times (")
        assert [text.partition(" that of ")[0].partition(" (")[0] for text in answers[1:]] == [
            f"Scenario {name}: embedded is ahead: its rate at the consumers is 2 times" for name in "AH"
        ]

    def test_a_light_leads_to_its_evidence(self, two: Path, open_page: Open) -> None:
        page = open_page(two)
        lights = page.locator(".lights a")
        assert [text.split()[0] for text in lights.all_inner_texts()] == ["Audit", "Noise", "Steady", "Lab", "Like"]
        for light in lights.all():
            light.click()
            section = page.locator(light.get_attribute("href") or "")
            expect(section.locator("table").first).to_be_visible()
            expect(tab(page, "Evidence")).to_have_attribute("aria-selected", "true")


class TestTabs:
    def test_keyboard(self, two: Path, open_page: Open) -> None:
        page = open_page(two)
        tab(page, "Answer").focus()
        page.keyboard.press("ArrowRight")
        expect(tab(page, "Compare")).to_be_focused()
        expect(page.locator("#compare")).to_be_visible()
        expect(page.locator("#answer")).to_be_hidden()
        page.keyboard.press("End")
        expect(page.locator("#setup")).to_be_visible()
        page.keyboard.press("Home")
        page.keyboard.press("ArrowRight")
        # From the tabs through the page: the first button of the first chart, by the keyboard alone.
        page.locator("#figure-overview .tools button").first.wait_for()
        page.keyboard.press("Tab")
        expect(page.locator("#figure-overview").get_by_role("button", name="Enlarge")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog").locator("svg")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)

    def test_without_a_script_all_is_there(self, two: Path, open_page: Open) -> None:
        page = open_page(two, script=False)
        for name in TABS:
            expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()
        assert page.locator("#figure-overview svg text", has_text="messages/s").count() > 0
        page.locator("#audit summary").first.click()
        expect(page.locator("#audit table")).to_be_visible()

    def test_print_has_all_tabs(self, two: Path, open_page: Open) -> None:
        page = open_page(two)
        page.emulate_media(media="print")
        for name in TABS:
            expect(page.locator(f"#{name.lower()}")).to_be_visible()
        expect(page.locator(".tabs")).to_be_hidden()


class TestCharts:
    def test_hover_says_value_interval_and_unit(self, two: Path, open_page: Open) -> None:
        page = open_page(two)
        tab(page, "Compare").click()
        live(chart(page, "overview")).locator(".mark-symbol path").first.hover()
        tip = page.locator("#vg-tooltip-element")
        expect(tip).to_be_visible()
        assert "messages/s" in tip.inner_text()
        marks = live(chart(page, "overview")).locator(".mark-symbol path")
        texts = set()
        for mark in marks.all():
            mark.hover(force=True)
            texts.add(tip.inner_text())
        assert any("embedded, measured here: 17,834 ± 178 messages/s" in text for text in texts)

    def test_zoom_and_reset(self, two: Path, open_page: Open) -> None:
        page = open_page(two)
        tab(page, "Compare").click()
        figure = chart(page, "rate-latency")
        axis = live(figure).locator(".role-axis-label text")
        before = axis.all_text_contents()
        figure.get_by_role("button", name="Zoom in").click()
        expect(axis.last).not_to_have_text(before[-1])
        figure.get_by_role("button", name="Reset zoom").click()
        expect(axis).to_have_text(before)

    def test_a_system_can_be_hidden(self, two: Path, open_page: Open) -> None:
        page = open_page(two)
        tab(page, "Compare").click()
        figure = chart(page, "overview")
        marks = live(figure).locator(".mark-symbol path")
        before = marks.count()
        figure.get_by_role("button", name="other").click()
        expect(marks).not_to_have_count(before)
        figure.get_by_role("button", name="other").click()
        expect(marks).to_have_count(before)

    def test_linear_and_log(self, two: Path, open_page: Open) -> None:
        page = open_page(two)
        tab(page, "Compare").click()
        figure = chart(page, "overview")
        title = live(figure).locator(".role-axis-title text", has_text="messages/s")
        button = figure.get_by_role("button", name="Log axis")
        was = button.get_attribute("aria-pressed")
        button.click()
        expect(title).to_have_text("messages/s, log scale" if was == "false" else "messages/s")
        button.click()
        expect(title).to_have_text("messages/s" if was == "false" else "messages/s, log scale")

    def test_the_data_as_table_and_files(self, two: Path, open_page: Open, tmp_path: Path) -> None:
        page = open_page(two)
        tab(page, "Compare").click()
        figure = chart(page, "overview")
        figure.get_by_role("button", name="Table").click()
        expect(figure.locator(".data tbody tr")).not_to_have_count(0)
        saved = {}
        for kind in ("CSV", "SVG", "PNG"):
            with page.expect_download() as download:
                figure.get_by_role("button", name=kind).click()
            saved[kind] = tmp_path / download.value.suggested_filename
            download.value.save_as(saved[kind])
        rows = list(csv.reader(saved["CSV"].read_text().splitlines()))
        assert rows[0] == ["Scenario", "System", "messages/s", "95 % from", "to"]
        assert ["H", "embedded", "17834", "17655.7", "18012.3"] in rows
        assert len(rows) - 1 == figure.locator(".data tbody tr").count()
        assert saved["SVG"].read_text().startswith("<svg")
        assert saved["PNG"].read_bytes().startswith(b"\x89PNG")

    def test_latency_over_time_is_read_by_pointer_and_by_keyboard(self, two: Path, open_page: Open) -> None:
        page = open_page(two)
        tab(page, "Evidence").click()
        page.locator("#latency-over-time summary").first.click()
        figure = chart(page, "heat-01-a")
        drawn = live(figure)
        expect(drawn.locator("text", has_text="kill broker")).to_be_visible()
        cells = drawn.locator("[fill='#7b3fc0']")
        cells.first.hover(force=True)
        expect(page.locator("#vg-tooltip-element")).to_contain_text("took")
        axis = drawn.locator(".role-axis-label text")
        before = axis.all_text_contents()
        figure.get_by_role("button", name="Zoom in").click()
        expect(axis).not_to_have_text(before)
        figure.get_by_role("button", name="Table").focus()
        page.keyboard.press("Enter")
        heads = figure.locator(".data th").all_inner_texts()
        assert heads == ["System", "From, s", "To, s", "latency above, s", "up to, s", "Messages"]
        expect(figure.locator(".data tbody tr")).not_to_have_count(0)

    def test_a_narrow_screen_has_charts_of_its_width(self, two: Path, open_page: Open) -> None:
        page = open_page(two, width=360)
        tab(page, "Compare").click()
        figure = chart(page, "overview")
        expect(figure.locator(".live svg")).to_be_visible()
        box = figure.locator(".live svg").bounding_box()
        assert box is not None
        assert box["width"] <= 360


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(two: Path, open_page: Open, scheme: Scheme) -> None:
    page = open_page(two, scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    for name in TABS:
        tab(page, name).click()
        if name == "Compare":
            live(chart(page, "overview"))
            page.locator("#figure-overview").get_by_role("button", name="Table").click()
        # Only colours differ in the dark.
        assert violations(page, "color-contrast" if scheme == "dark" else "") == [], name


def test_axe_finds_nothing_on_a_phone(whole_run: RunFolder, open_page: Open) -> None:
    assert violations(open_page(whole_run.report / "index.html", width=360)) == []
