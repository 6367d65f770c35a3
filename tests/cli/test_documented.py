"""The commands and snippets of the documents: each is understood by the program, and those of the tutorial are run."""

import ast
import os
import re
import shlex
from collections.abc import Iterator
from glob import glob
from pathlib import Path
from textwrap import dedent

import pytest
import yaml
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from mqlab.cli.app import app_with
from mqlab.client import connect
from mqlab.systems import system
from mqlab.systems.program import free_port

from .command import PROGRAM, Background, here
from .running_broker import broker_process

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LOOPBACK = re.compile(r"tcp:127\.0\.0\.1:\d+")
BLOCK = re.compile(r"^ *```(\w+)([^\n]*)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)


def blocks(document: Path, language: str) -> Iterator[tuple[str, str]]:
    """The options behind the language of each block, and its content."""
    for found in BLOCK.finditer(document.read_text(encoding="utf-8")):
        if found[1] == language:
            yield found[2], dedent(found[3])


def commands(document: Path) -> Iterator[list[str]]:
    """The words of each command of this program, without its name and without comments."""
    for _, block in blocks(document, "sh"):
        for line in block.replace("\\\n", "").splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["mqlab"]:
                yield words[1:]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_program_understands_every_command(document: Path) -> None:
    program = get_command(app_with())
    for words in commands(document):
        command, rest = program, words
        while isinstance(command, TyperGroup) and rest and rest[0] in command.commands:
            command, rest = command.commands[rest[0]], rest[1:]
        assert isinstance(command, TyperCommand) or getattr(command, "invoke_without_command", False), words
        # It parses and checks the words, and runs nothing.
        command.make_context("mqlab", [*rest])


# Those of the how-to pages are parts of files; tests/cli/test_howto.py runs the whole ones.
WHOLE = [document for document in DOCUMENTS if document.parent.name != "howto"]


@pytest.mark.parametrize("document", WHOLE, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_python_and_yaml_snippet_can_be_read(document: Path) -> None:
    for _, block in blocks(document, "python"):
        # Snippets of the asyncio API leave out the coroutine around them.
        compile(block, str(document), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    for _, block in blocks(document, "yaml"):
        assert yaml.safe_load(block)


# `make test-pages` runs them all.
IS_ALL = os.environ.get("MQLAB_TEST_PAGES") == "all"
TUTORIAL = ["first-run", "own-study", "two-brokers"] if IS_ALL else ["own-study"]
MY_STUDY = """
study: mine
title: My own
scenarios:
  A: {topics: 1, producers: 1, consumers: 1, message: {size: 12B}}
scales:
  quick: {phases: {warmup: 100ms, measure: 400ms, drain: 60s}, repeat: {until: none, least: 2, most: 2}}
"""


@pytest.mark.parametrize("page", TUTORIAL)
def test_the_commands_of_the_tutorial_work(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = ROOT / "docs" / "tutorial" / f"{page}.md"
    monkeypatch.chdir(tmp_path)
    # The processes of a Spark session that is shared know another present folder.
    monkeypatch.setenv("MQLAB_RUNS", str(tmp_path / "runs"))
    for options, content in blocks(document, "yaml"):
        title = re.search(r'title="([\w.-]+)"', options)
        assert title, "a file of the tutorial has a name"
        (tmp_path / title[1]).write_text(content)
    played = 0
    for words in commands(document):
        names = {words[n + 1] for n, word in enumerate(words) if word == "--system"} | {*words} & {"nats"}
        if any(system(name).missing() for name in names) or "install" in words or "--minutes" in words:
            continue  # it needs the network, or takes a minute
        shorter = ["--minutes", "0.1"] if words[0] == "run" else []
        result = here(*(file for word in words for file in (glob(word) or [word])), *shorter)
        # 6: a claim may be undecided by so few runs.
        assert result.exit_code in (0, 6), result.output
        played += 1
    assert played >= 2


def needs_more(words: list[str]) -> bool:
    """Whether a command installs something, needs a broker on another machine, or a system that is not here."""
    if any(word.startswith("external:") and LOOPBACK.search(word) is None for word in words):
        return True
    if words[:2] == ["systems", "install"]:
        return "--dry-run" not in words
    named = {words[n + 1] for n, word in enumerate(words) if word == "--system"}
    if words[0] == "conformance":
        named.add(words[1])
    if words[:2] == ["systems", "start"]:
        named.add(words[2])
    return any(system(name).missing() for name in named)


def least(words: list[str]) -> list[str]:
    """Options that make a command take seconds: the last of two values of an option counts."""
    if words[0] == "overhead":
        return ["--rounds", "2"]
    if words[0] != "run" or "--resume" in words:
        return []
    only = {"jms-four-brokers": ["--only", "D"], "failover": ["--only", "kill"]}
    return [*(only.get(words[1], []) if "--only" not in words else []), "--minutes", "0.1"]


@pytest.mark.skipif(not IS_ALL, reason="takes some minutes: make test-pages")
@pytest.mark.parametrize("name", ["README.md", "docs/systems.md"])
def test_the_commands_of_the_reference_work(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they stand, but shorter: with the run folder of the command before, and a broker of the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MQLAB_RUNS", str(tmp_path / "runs"))
    (tmp_path / "my-study.yaml").write_text(MY_STUDY)
    played = 0
    with broker_process(tmp_path, "--data", tmp_path / "data") as (_, address):
        for words in commands(ROOT / name):
            if needs_more(words):
                continue
            folders = sorted(str(path.parent) for path in (tmp_path / "runs").glob("*/meta.json"))
            here_words = [folders[-1] if word.startswith("runs/") else LOOPBACK.sub(address, word) for word in words]
            result = here(*here_words, *least(words))
            # 5, 6: so few runs leave a comparison open, or make a difference that is none. A run that is complete has
            # nothing to go on with.
            accepted = {"run": (0, 6), "overhead": (0, 5, 6), "compare": (0, 5, 6)}.get(words[0], (0,))
            assert result.exit_code in accepted or "is complete" in result.output, f"{words}: {result.output}"
            played += 1
    assert played >= 5


def test_the_brokers_of_the_manual_move_messages_to_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they stand, but on free ports."""
    monkeypatch.chdir(tmp_path)
    of_a, of_b = [words[1:] for words in commands(ROOT / "docs" / "broker.md") if words[0] == "broker"]
    ports = {port: str(free_port()) for port in ("7766", "7777")}

    def on_free_ports(words: list[str]) -> list[str]:
        return [re.sub("|".join(ports), lambda port: ports[port[0]], word) for word in words]

    (tmp_path / "A").mkdir()
    (tmp_path / "B").mkdir()
    with (
        Background(tmp_path / "A", *PROGRAM, "broker", *on_free_ports(of_a)) as a,
        Background(tmp_path / "B", *PROGRAM, "broker", *on_free_ports(of_b)) as b,
    ):
        for one in (a, b):
            assert one.process.stdout is not None
            assert one.process.stdout.readline().startswith(b"listening on "), one.stderr
        with connect(f"tcp:127.0.0.1:{ports['7766']}") as near, connect(f"tcp:127.0.0.1:{ports['7777']}") as far:
            near.session().producer("queue:orders").send(b"one", persistent=True)
            assert far.session().consumer("queue:orders").receive(60).body == b"one"


@pytest.mark.usefixtures("spark")
def test_the_commands_on_history_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MQLAB_RUNS", str(tmp_path / "runs"))
    (tmp_path / "my-study.yaml").write_text(MY_STUDY)
    assert here("run", "my-study.yaml").exit_code == 0
    played = [*commands(ROOT / "docs" / "history.md")]
    assert len(played) >= 3
    for words in played:
        result = here(*words)
        assert result.exit_code == 0, f"{words}: {result.output}"
