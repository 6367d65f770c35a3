"""Debian's Chromium, which opens pages as a person would. A page may request nothing from another host."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from mqlab.events.folder import RunFolder

AXE = Path(__file__).with_name("axe.min.js")
# What belongs to the page itself.
_OWN = ("file:", "blob:", "data:", "http://127.0.0.1:")
# A page has as long as a busy machine needs; the time limit of the test ends an endless wait.
_TIMEOUT_MS = 300_000
expect.set_options(timeout=_TIMEOUT_MS)
Scheme = Literal["light", "dark"]
Open = Callable[..., Page]


@pytest.fixture(scope="module")
def browser(whole_run: RunFolder) -> Iterator[Browser]:  # noqa: ARG001
    """While it is open, its event loop runs in this process: nothing else can run one, so it ends with the module.

    The run that all tests of reports share comes first.
    """
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("Chromium is missing: apt-get install chromium")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """Opens a file or an address. The test fails if a page reports an error, or asks another host for anything."""
    faults: list[str] = []
    contexts = []

    def opened(
        place: Path | str, *, width: int = 1400, height: int = 900, scheme: Scheme = "light", script: bool = True
    ) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, java_script_enabled=script
        )
        contexts.append(context)
        context.set_default_timeout(_TIMEOUT_MS)
        page = context.new_page()
        page.on("console", lambda said: faults.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda asked: None if asked.url.startswith(_OWN) else faults.append(asked.url))
        page.goto(place if isinstance(place, str) else place.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert faults == []


def violations(page: Page, only: str = "") -> list[str]:
    """What axe-core finds: each rule (or one rule) that is violated, with the first element that violates it."""
    # The page's own policy forbids other scripts; the browser's debugger may run them.
    page.evaluate(AXE.read_text())
    options = {"resultTypes": ["violations"], "preload": False, **({"runOnly": [only]} if only else {})}
    found = page.evaluate("options => axe.run(document, options)", options)
    return [f"{one['id']}: {len(one['nodes'])} x {one['nodes'][0]['html'][:200]}" for one in found["violations"]]
