import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mqlab.events.folder import NotARunFolderError, RunFolder
from mqlab.events.recorder import event_table
from mqlab.events.schema import SCHEMA_VERSION, TABLES

NOON = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)


def test_a_new_folder_has_its_parts(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "deep" / "runs", "a-study-quick", NOON)
    assert folder.path == tmp_path / "deep" / "runs" / "20260102-120000-a-study-quick"
    assert sorted(part.name for part in folder.path.iterdir()) == ["events", "measures", "report", "study"]


def test_names_are_unique_within_a_second(tmp_path: Path) -> None:
    paths = [RunFolder.create(tmp_path, "x", NOON).path.name for _ in range(12)]
    assert paths[:3] == ["20260102-120000-x", "20260102-120000-x-2", "20260102-120000-x-3"]
    assert len(set(paths)) == 12


def test_the_hundredth_of_a_second_is_refused_with_a_reason(tmp_path: Path) -> None:
    for _ in range(99):
        RunFolder.create(tmp_path, "x", NOON)
    with pytest.raises(FileExistsError, match="a hundred runs began in this second"):
        RunFolder.create(tmp_path, "x", NOON)


def test_large_tables_are_written_in_row_groups_of_which_a_reader_can_skip_most(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "x", NOON)
    rows = pa.table({field.name: pa.repeat(pa.scalar(1, field.type), 300_000) for field in TABLES["clocks"]})
    folder.write_events("clocks", "run-00001", rows)
    (file,) = folder.event_files("clocks")
    metadata = pq.read_metadata(file)
    sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    assert sum(sizes) == 300_000
    assert max(sizes) < 150_000


@pytest.mark.parametrize(
    ("name", "cleaned"),
    [
        ("../../etc/passwd", "etc-passwd"),
        ("a b/c", "a-b-c"),
        ("..", "run"),
        ("", "run"),
        ("\u00fc\n\x00", "run"),
        ("-x.", "x"),
        ("A.b_c-9", "A.b_c-9"),
    ],
)
def test_a_name_never_leaves_the_parent(tmp_path: Path, name: str, cleaned: str) -> None:
    folder = RunFolder.create(tmp_path, name, NOON)
    assert folder.path.parent == tmp_path
    assert folder.path.name == f"20260102-120000-{cleaned}"


class TestMeta:
    def test_it_comes_back_as_it_was_written(self, tmp_path: Path) -> None:
        folder = RunFolder.create(tmp_path, "x")
        folder.write_meta({"study": "x", "machine": {"cores": 2}})
        again = RunFolder.open(folder.path)
        assert again.path == folder.path
        assert again.meta() == {"schema_version": SCHEMA_VERSION, "study": "x", "machine": {"cores": 2}}

    def test_what_was_read_may_be_written_again(self, tmp_path: Path) -> None:
        folder = RunFolder.create(tmp_path, "x")
        folder.write_meta({"status": "incomplete"})
        folder.write_meta({**folder.meta(), "status": "complete"})
        assert RunFolder.open(folder.path).meta() == {"schema_version": SCHEMA_VERSION, "status": "complete"}

    def test_an_interrupted_write_leaves_the_old_one(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder = RunFolder.create(tmp_path, "x")
        folder.write_meta({"status": "incomplete"})
        whole = Path.write_text

        def half(path: Path, text: str) -> int:
            whole(path, text[: len(text) // 2])
            raise KeyboardInterrupt

        monkeypatch.setattr(Path, "write_text", half)
        with pytest.raises(KeyboardInterrupt):
            folder.write_meta({"status": "complete"})
        monkeypatch.undo()
        assert RunFolder.open(folder.path).meta()["status"] == "incomplete"

    def test_a_meta_that_json_cannot_hold_leaves_the_old_one(self, tmp_path: Path) -> None:
        folder = RunFolder.create(tmp_path, "x")
        folder.write_meta({"status": "incomplete"})
        with pytest.raises(TypeError):
            folder.write_meta({"status": object()})
        assert folder.meta()["status"] == "incomplete"


class TestNotARunFolder:
    def message(self, path: Path) -> str:
        with pytest.raises(NotARunFolderError) as caught:
            RunFolder.open(path)
        text = str(caught.value)
        assert text.startswith(f"{path}: ")
        assert "\n" not in text
        return text

    def test_nothing_there(self, tmp_path: Path) -> None:
        assert "no meta.json" in self.message(tmp_path / "nothing")

    def test_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        assert "no meta.json" in self.message(tmp_path / "file")

    def test_an_empty_folder(self, tmp_path: Path) -> None:
        assert "no meta.json" in self.message(tmp_path)

    @pytest.mark.parametrize("version", [0, SCHEMA_VERSION + 1, "1", None])
    def test_events_of_another_version(self, tmp_path: Path, version: object) -> None:
        (tmp_path / "meta.json").write_text(json.dumps({"schema_version": version}))
        assert f"this mqlab reads {SCHEMA_VERSION}" in self.message(tmp_path)

    @pytest.mark.parametrize("text", ["", "{", '{"schema_version": 1', "[1]", "null", "\x00\x01"])
    def test_a_meta_that_cannot_be_read(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "meta.json").write_text(text)
        assert "meta.json" in self.message(tmp_path)

    def test_a_meta_that_is_no_text(self, tmp_path: Path) -> None:
        (tmp_path / "meta.json").write_bytes(b"\xff\xfe\x00")
        assert "meta.json" in self.message(tmp_path)


class TestEvents:
    ROW = {"run": 1, "phase": "measure", "t_start": 1, "t_end": 2}  # noqa: RUF012

    def test_a_file_a_writer(self, tmp_path: Path) -> None:
        folder = RunFolder.create(tmp_path, "x")
        folder.write_events("phases", "run-1", event_table("phases", [self.ROW]))
        folder.write_events("phases", "run-2", event_table("phases", [{**self.ROW, "run": 2}]))
        found = {file.name[:5]: pq.read_table(file).to_pylist() for file in (folder.events / "phases").iterdir()}
        assert found == {"run-1": [self.ROW], "run-2": [{**self.ROW, "run": 2}]}

    def test_a_table_that_is_not_of_the_schema_is_refused(self, tmp_path: Path) -> None:
        folder = RunFolder.create(tmp_path, "x")
        with pytest.raises((ValueError, pa.ArrowException)):
            folder.write_events("phases", "run-1", pa.table({"run": [1]}))
        with pytest.raises(KeyError):
            folder.write_events("phase", "run-1", event_table("phases", [self.ROW]))

    def test_a_writer_that_dies_leaves_no_half_a_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """One torn file would make the events of all runs unreadable."""
        folder = RunFolder.create(tmp_path, "x")

        def torn(path: Path, _: bytes) -> None:
            path.open("wb").close()
            raise KeyboardInterrupt

        monkeypatch.setattr(Path, "write_bytes", torn)
        with pytest.raises(KeyboardInterrupt):
            folder.write_events("phases", "run-1", event_table("phases", [self.ROW]))
        assert [*(folder.events / "phases").glob("*.parquet")] == []


def test_the_schema_names_every_table_of_a_run() -> None:
    assert [*TABLES] == [
        "runs", "roles", "sends", "receipts", "round_trips", "operations", "samples", "phases", "faults",
        "switches", "clocks", "machine", "travel",
    ]  # fmt: skip
