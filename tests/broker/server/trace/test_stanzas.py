"""The file that says who is traced."""

from pathlib import Path

import pytest

from mqlab.broker.server.trace.stanzas import (
    Stanza,
    StanzaError,
    level_from,
    level_of,
    parse_stanzas,
    read_stanzas,
    write_stanzas,
)
from mqlab.broker.settings import Level

FILE = """
# One requester closely, the other requesters a little, nobody else.
* A star begins a comment, too.
ApplicationTrace:
  ApplName=Requester0
  Trace=ON
  TraceLevel=HIGH
ApplicationTrace:
  ApplName = Requester*
  TraceLevel = LOW

ApplicationTrace:
ApplName=Responder1
Trace=ON

ApplicationTrace:
  Trace=OFF
  ApplName=*
"""


def test_a_file_as_a_person_writes_it() -> None:
    assert parse_stanzas(FILE, "mine") == (
        Stanza("Requester0", "high"),
        Stanza("Requester*", "low"),
        Stanza("Responder1", "medium"),
        Stanza("*", "off"),
    )


@pytest.mark.parametrize(
    ("application", "level"),
    [
        ("Requester0", "high"),
        ("Requester", "low"),
        ("Requester01", "low"),
        ("requester0", "off"),
        ("Responder1", "medium"),
        ("Responder10", "off"),
        ("", "off"),
    ],
)
def test_the_first_that_matches_decides(application: str, level: Level) -> None:
    assert level_of(parse_stanzas(FILE, "mine"), application, "high") == level


@pytest.mark.parametrize("otherwise", ["off", "medium"])
def test_who_is_in_no_stanza_has_the_level_of_all_others(otherwise: Level) -> None:
    for text in ("", "# nothing\n", "ApplicationTrace:\n ApplName=Somebody\n"):
        assert level_of(parse_stanzas(text, "mine"), "Requester0", otherwise) == otherwise


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ApplName=a\n", "mine:1: the file must begin with ApplicationTrace:"),
        ("\n\nApplicationTrace:\n  Trace=ON\n", "mine:3: a stanza needs ApplName=NAME"),
        ("ApplicationTrace:\n ApplName=a\n Trace=MAYBE\n", "mine:3: Trace=MAYBE is none of ON, OFF"),
        ("ApplicationTrace:\n ApplName=a\n TraceLevel=low\n", "mine:3: TraceLevel=low is none of LOW, MEDIUM, HIGH"),
        ("ApplicationTrace:\n ApplName=a\n Colour=red\n", "mine:3: the line is none of"),
        ("ApplicationTrace:\n ApplName=a\n ApplName=b\n", "mine:3: ApplName appears twice"),
        ("ApplicationTrace:\n ApplName=a*b\n", "mine:2: 'a*b': a star may stand at the end"),
        ("ApplicationTrace:\n ApplName=\n", "mine:2: '' is not 1 to 255 printable characters"),
        ("ApplicationTrace:\n ApplName=" + "x" * 256 + "\n", "mine:2: "),
        ("ApplicationTrace:\n ApplName=a\tb\n", r"mine:2: 'a\\tb' is not 1 to 255 printable"),
        ("ApplicationTrace\n", "mine:1: the file must begin with"),
        ("AllActivityTrace:\n TraceLevel=LOW\n", "mine:1: the file must begin with"),
    ],
)
def test_what_cannot_be_meant_is_told_with_its_line(text: str, words: str) -> None:
    with pytest.raises(StanzaError) as caught:
        parse_stanzas(text, "mine")
    assert str(caught.value).startswith(words.replace("\\\\", "\\"))
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(StanzaError, match=r"missing cannot be read: No such file"):
        read_stanzas(tmp_path / "missing")
    with pytest.raises(StanzaError, match="cannot be read: Is a directory"):
        read_stanzas(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(StanzaError, match="is not UTF-8"):
        read_stanzas(tmp_path / "binary")
    (tmp_path / "large").write_bytes(b"#" * (4 * 1024 * 1024 + 1))
    with pytest.raises(StanzaError, match="is longer than"):
        read_stanzas(tmp_path / "large")


def test_a_file_of_a_windows_editor_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "stanzas"
    path.write_bytes(b"\xef\xbb\xbfApplicationTrace:\r\n  ApplName=a b\r\n")
    assert read_stanzas(path) == (Stanza("a b", "medium"),)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "stanzas"
    chosen = (Stanza("Requester0", "low"), Stanza("Zürich*", "high"), Stanza("quiet", "off"))
    write_stanzas(path, chosen)
    assert read_stanzas(path) == chosen
    write_stanzas(path, chosen, default="off")
    assert read_stanzas(path) == (*chosen, Stanza("*", "off"))
    with pytest.raises(StanzaError):
        write_stanzas(path, [Stanza("a\nApplicationTrace:", "low")])


def test_words_for_levels() -> None:
    assert [level_from(word) for word in ("off", "low", "high", "default", "")] == ["off", "low", "high", None, None]
    with pytest.raises(StanzaError, match="'LOW' is none of off, low, medium, high, default"):
        level_from("LOW")
