"""The pytest plugin, in pytest processes of their own."""

import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from textwrap import indent

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "testing"
# The plugin of this source tree, whichever is installed.
PLUGIN = ("-p", "no:mqlab", "-p", "mqlab.pytest_plugin", "-p", "no:cacheprovider", "--strict-markers")


def run(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "pytest", "-q", f"--rootdir={folder}", *PLUGIN, *arguments, str(folder)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)


def test_the_package_announces_its_plugin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    plugin = import_module(project["entry-points"]["pytest11"]["mqlab"])
    assert plugin.mqlab_broker.__doc__


@pytest.mark.parametrize("where", ["in-process", "process"])
def test_the_examples_pass(where: str) -> None:
    ended = run(EXAMPLES, f"--mqlab-broker={where}")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert " passed" in ended.stdout


# The program that the first snippet of the manual tests.
SHOP = """\
from urllib.parse import urlsplit

from mqlab.client import connect


def order(text, broker):
    place = urlsplit(broker)
    with connect(f"tcp:{place.hostname}:{place.port}") as connection:
        producer = connection.session().producer("queue:orders")
        producer.send(text.encode(), persistent=True, properties={"fruit": "apple"})
"""


def test_the_snippets_of_the_manual_run(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "testing.md").read_text()
    *whole, clock = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(whole) == 3
    for_several = "def test_for_several(broker):\n    assert broker.port\n"
    with_clock = f"def test_clock(mqlab_broker):\n{indent(clock, '    ')}"
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "test_manual.py").write_text(
        "\n".join(["import pytest", "import shop", *whole, for_several, with_clock])
    )
    ended = run(tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "4 passed" in ended.stdout


def test_a_failed_assertion_shows_what_was_sent(tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text("""\
def test_orders(mqlab_broker):
    with mqlab_broker.connect() as connection:
        connection.session().producer("queue:orders").send(b"one", properties={"colour": "red"})
    mqlab_broker.assert_sent("queue:orders", "one")
    mqlab_broker.assert_sent("queue:orders", "two", timeout=0.1)
""")
    ended = run(tmp_path)
    assert ended.returncode == 1
    assert "AssertionError: no such message sent to queue:orders; all that was sent:" in ended.stdout
    assert "queue:orders b'one' {'colour': 'red'}" in ended.stdout


def test_a_setting_that_is_wrong_fails_the_test_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "test_setting.py").write_text("""\
import pytest

@pytest.mark.mqlab_broker(process=True, sync="maybe")
def test_orders(mqlab_broker):
    pass
""")
    ended = run(tmp_path)
    assert ended.returncode == 1
    assert "SettingError: sync: 'maybe' is none of on, off" in ended.stdout


def test_the_plugin_imports_no_broker_before_a_test_uses_it(tmp_path: Path) -> None:
    (tmp_path / "test_nothing.py").write_text("""\
import sys

def test_nothing():
    assert not [name for name in sys.modules if name.startswith(("mqlab.broker", "mqlab.client", "pyarrow", "uvloop"))]
""")
    ended = run(tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
