"""The how-to pages: what they tell to write works as it stands there."""

import re
import tomllib
from pathlib import Path
from textwrap import dedent

from mqlab.study import load_study

from .command import document, here, mqlab
from .running_broker import broker_process

PAGES = Path(__file__).parents[2] / "docs" / "howto"


def first_block(page: str, language: str) -> str:
    text = (PAGES / page).read_text(encoding="utf-8")
    block = re.search(rf"^ *```{language}\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    assert block, f"{page} has no block of {language}"
    return dedent(block[1])


def install(folder: Path, project: str) -> None:
    """As pip does it: the entry points of a package are in a folder beside it."""
    table = tomllib.loads(project)["project"]
    information = folder / f"{table['name'].replace('-', '_')}-{table['version']}.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {table['name']}\nVersion: {table['version']}\n"
    )
    lines = [
        line
        for group, points in table["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in points.items()))
    ]
    (information / "entry_points.txt").write_text("\n".join(lines))


def test_a_driver_of_another_package_conforms(tmp_path: Path) -> None:
    (tmp_path / "single_driver.py").write_text(first_block("add-a-driver.md", "python"))
    install(tmp_path, first_block("add-a-driver.md", "toml"))
    with broker_process(tmp_path, "--data", tmp_path / "data") as (_, address):
        system = f"external:driver=single,address={address}"
        ended = mqlab("conformance", system, "--json", PYTHONPATH=str(tmp_path))
    assert ended.returncode == 0, ended.stderr
    results = {feature["feature"]: feature["result"] for feature in document(ended.stdout)["features"]}
    lacking = {
        "properties", "priority", "expiry", "keys", "selectors", "durable subscriptions", "request/reply",
        "retrieval by correlation id", "depth",
    }  # fmt: skip
    assert {feature for feature, result in results.items() if result == "lacks"} == lacking
    assert {result for feature, result in results.items() if feature not in lacking} == {"works"}


def test_the_study_is_planned(tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(first_block("add-a-study.md", "yaml"))
    planned = here("plan", file)
    assert planned.exit_code == 0, planned.output
    assert "batch-or-wait at scale quick: 7.2 s of load on each system." in planned.output
    study = load_study(file)
    assert [point.label for point in study.points("quick")] == [
        "waiting", "transacted (transaction=10)", "transacted (transaction=100)",
    ]  # fmt: skip
    assert [claim.id for claim in study.claims] == ["transactions-pay"]
