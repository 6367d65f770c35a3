from pathlib import Path

import pytest

from mqlab.study import StudyError
from mqlab.study.language.yaml_file import YamlFile


def read(tmp_path: Path, text: str) -> YamlFile:
    path = tmp_path / "x.yaml"
    path.write_text(text, encoding="utf-8")
    return YamlFile(path)


def test_scalars_stay_as_written(tmp_path: Path) -> None:
    file = read(tmp_path, "a: no\nb: 1.10\nc: 12:30\nd: 2020-01-01\ne: ~\nno: on\n")
    assert file.data == {"a": "no", "b": "1.10", "c": "12:30", "d": "2020-01-01", "e": "~", "no": "on"}


def test_every_part_has_its_line(tmp_path: Path) -> None:
    file = read(tmp_path, "# why\na:\n  b: 1\n  c: [x,\n      y]\nd: {e: 1,\n    f: 2}\n")
    lines = {("a",): 2, ("a", "b"): 3, ("a", "c"): 4, ("a", "c", 1): 5, ("d", "e"): 6, ("d", "f"): 7}
    assert {where: file.line(where) for where in lines} == lines


def test_what_is_not_there_has_the_line_of_what_is_around_it(tmp_path: Path) -> None:
    file = read(tmp_path, "a:\n  b: {c: 1}\n")
    assert file.line(("a", "b", "z", 3)) == 2
    assert file.line(("z",)) == 1


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", None, "is empty"),
        ("# only a comment\n", None, "is empty"),
        ("a: 1\nb: [1, 2\nc: 3\n", 3, "is not YAML"),
        ("a: 1\n\tb: 2\n", 2, "is not YAML"),
        ("a: 1\n---\nb: 2\n", 2, "is not YAML"),
        ("a: 1\nb: 2\na: 3\n", 1, "a: occurs again in line 3"),
        ("a: &x 1\nb: *x\n", 1, "anchors are not accepted; put shared"),
        ("a: 1\n? [b]\n: 2\n", 2, "a key must be a word"),
        ("a: \x00\n", None, "is not YAML"),
        ("[" * 3000, None, "is not YAML"),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, text: str, line: int | None, message: str) -> None:
    with pytest.raises(StudyError) as caught:
        read(tmp_path, text)
    assert caught.value.line == line
    assert message in caught.value.message


def test_files_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"a: \xff\xfe")
    with pytest.raises(StudyError, match="not text in UTF-8"):
        YamlFile(path)
    path.write_text("a" * 1_000_001)
    with pytest.raises(StudyError, match="longer than"):
        YamlFile(path)
    with pytest.raises(StudyError, match="cannot be read"):
        YamlFile(tmp_path / "missing.yaml")
