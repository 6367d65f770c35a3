"""The load of a scenario, for commands that make up a study of their own."""

from pathlib import Path

from mqlab.cli.experiments.workload import workload_parameters

STUDY = """
study: mine
title: Mine
defaults: {queues: 1, producers: 1, consumers: 1, message: {size: 1KiB, persistent: yes}}
scenarios:
  A: {message: {body: files in payloads}, rate: counts in counts.txt}
  B: {message: {body: filler}}
"""


def test_the_files_that_it_names_go_along(tmp_path: Path) -> None:
    source, made = tmp_path / "source", tmp_path / "made"
    (source / "payloads").mkdir(parents=True)
    made.mkdir()
    (source / "payloads" / "a").write_text("a")
    (source / "counts.txt").write_text("5\n")
    (source / "mine.yaml").write_text(STUDY)
    name, load = workload_parameters(str(source / "mine.yaml"), "A", made)
    assert (name, load["message"]) == ("A", {"persistent": "yes", "body": "files in payloads"})
    assert (made / "payloads" / "a").read_text() == "a"
    assert (made / "counts.txt").read_text() == "5\n"
    _, filled = workload_parameters(str(source / "mine.yaml"), "B", made)
    assert filled["message"] == {"size": "1KiB", "persistent": "yes", "body": "filler"}
