"""The Python snippets of the broker's manual, MQTT and AMQP run as they are printed, against a broker."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from textwrap import indent

import pytest

from mqlab.client import connect
from mqlab.wire.address import Address

from .broker_helpers import Served

DOCS = Path(__file__).parents[2] / "docs"
# Those of docs/spark.md run in tests/spark, of docs/testing.md in tests/testing, of README.md in test_examples.
SNIPPETS = [
    pytest.param(snippet, id=f"{name}-{number}")
    for name in ("amqp.md", "broker.md", "mqtt.md")
    for number, snippet in enumerate(re.findall(r"```python\n(.*?)```", (DOCS / name).read_text(), re.DOTALL))
]
# What a snippet leaves on the queue `orders`.
SENT = re.compile(r'"orders"\)\.send\(Message\(body="(.+?)"|"/queue/orders", "(.+?)"')


def as_program(snippet: str) -> str:
    """A snippet that awaits is the body of a coroutine."""
    try:
        compile(snippet, "snippet", "exec")
    except SyntaxError:
        return f"import asyncio\n\nasync def main():\n{indent(snippet, '    ')}\n\nasyncio.run(main())\n"
    return snippet


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_a_snippet_runs(snippet: str, served: Served, tmp_path: Path) -> None:
    if "from proton" in snippet and find_spec("proton") is None:
        pytest.skip("python-qpid-proton is not installed")
    program = as_program(snippet.replace("7766", str(Address.parse(served.address).port)))
    if "7766" in snippet:
        assert program != as_program(snippet)
    ended = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    if sent := SENT.search(snippet):
        with connect(served.address) as connection:
            consumer = connection.session().consumer("queue:orders")
            message = consumer.receive(timeout=60)
            assert message is not None
            assert (sent[1] or sent[2]) in str(message.body)


def test_every_document_with_snippets_is_run_somewhere() -> None:
    """Those of the how-to pages are parts of files, which tests/cli/test_howto.py runs as a whole."""
    with_snippets = {path.name for path in DOCS.rglob("*.md") if "```python" in path.read_text()}
    howto = {path.name for path in (DOCS / "howto").glob("*.md")}
    assert with_snippets - howto == {"amqp.md", "broker.md", "mqtt.md", "spark.md", "testing.md"}
    assert len(SNIPPETS) == 5
