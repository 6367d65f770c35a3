"""The documentation site: MkDocs builds it without a network, and it works from files."""

from pathlib import Path

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config
from playwright.sync_api import expect

from cli.command import here

from .conftest import Open, Scheme, violations

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("package") / "site"
    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(target), strict=True)
    config.plugins.on_startup(command="build", dirty=False)
    build(config)
    return target


def test_every_document_has_its_page_and_the_reference_comes_from_the_code(site: Path) -> None:
    for document in (ROOT / "docs").rglob("*.md"):
        place = document.relative_to(ROOT / "docs").with_suffix(".html")
        page = place.with_name("index.html") if place.name == "README.html" else place
        assert (site / page).is_file(), page
    commands = (site / "reference" / "commands.html").read_text()
    assert 'id="mqlab-run"' in commands
    assert "--ignore-noise" in commands
    assert "rate.received" in (site / "reference" / "metrics.html").read_text()
    assert "send_batch" in (site / "reference" / "client-api.html").read_text()


def test_search_works_without_a_server(site: Path, open_page: Open) -> None:
    page = open_page(site / "index.html")
    page.locator("input[name=query]").click()
    page.keyboard.type("durable")
    expect(page.locator(".md-search-result__item").first).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1400])
def test_axe_finds_nothing_and_nothing_is_cut_off(site: Path, open_page: Open, width: int, scheme: Scheme) -> None:
    page = open_page(site / "tutorial" / "first-run.html", width=width, scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(page) == []


def test_the_command_opens_a_page(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqlab.cli.docs.files", lambda _: site.parent)
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert here("docs", "tutorial/first-run").exit_code == 0
    assert opened == [(site / "tutorial" / "first-run.html").as_uri()]
    assert here("docs", "--path").stdout.strip() == str(site / "index.html")
    unknown = here("docs", "../secret")
    assert unknown.exit_code == 2
    assert "no page ../secret; there are amqp, architecture, broker," in unknown.stderr


def test_a_package_without_its_site_says_how_to_build_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqlab.cli.docs.files", lambda _: tmp_path)
    ended = here("docs")
    assert ended.exit_code == 2
    assert "make docs builds it" in ended.stderr
