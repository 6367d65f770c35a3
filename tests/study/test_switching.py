"""Points that are measured in common runs: which they are, how long a run is, and the order of its slices."""

from collections import Counter
from pathlib import Path

import pytest

from mqlab.study import StudyError, estimate, load_study
from mqlab.study.rounds.switching import common_point, common_runs, slice_order, why_not_switched

LIVE = ("monitoring", "trace")
STUDY = """
study: switched
title: Switched
defaults:
  {{pattern: request-reply, queues: 1, responders: 2, message: {{size: 64B}}, phases: {{warmup: 1s, measure: 2s}}}}
scenarios:
  A:
    requesters: [2, 4]
    settings: {{trace: [off, low, high], sync: [on, off]}}
    repeat: {{until: none, most: 3}}
    {more}
"""


def written(folder: Path, more: str) -> Path:
    file = folder / "study.yaml"
    file.write_text(STUDY.format(more=more))
    return file


def test_points_that_differ_in_live_settings_alone_have_common_runs(tmp_path: Path) -> None:
    points = load_study(written(tmp_path, "switch: 400ms")).points("full")
    groups = common_runs(points, LIVE)
    assert [len(group) for group in groups] == [3] * 4
    assert {(group[0].requesters, group[0].settings["sync"]) for group in groups} == {
        (2, "on"), (2, "off"), (4, "on"), (4, "off"),
    }  # fmt: skip
    assert all({point.settings["trace"] for point in group} == {"off", "low", "high"} for group in groups)
    assert [len(group) for group in common_runs(points, ())] == [1] * 12
    assert (why_not_switched(points, LIVE), why_not_switched(points, ())) == ("", "")
    assert "scenario A: switch: no two of its points" in why_not_switched(points, ("monitoring",))


def test_a_common_run_counts_once_and_gives_each_point_its_time(tmp_path: Path) -> None:
    points = load_study(written(tmp_path, "switch: 400ms")).points("full")
    group = common_runs(points, LIVE)[0]
    assert common_point(group).phases.measure == pytest.approx(3 * 2.0)
    separate, common = estimate(points), estimate(points, LIVE)
    assert (separate.least_runs, common.least_runs) == (36, 12)
    assert [separate.least_seconds, common.least_seconds] == pytest.approx([36 * 3, 12 * 7])


def test_without_switch_every_point_has_its_own_runs(tmp_path: Path) -> None:
    points = load_study(written(tmp_path, "switch: none")).points("full")
    assert [len(group) for group in common_runs(points, LIVE)] == [1] * 12


def test_no_setting_has_the_better_places() -> None:
    order = slice_order(3, 8, "seed")
    blocks = [order[place : place + 3] for place in range(0, 24, 3)]
    assert all(sorted(block) == [0, 1, 2] for block in blocks)
    assert all(second == first[::-1] for first, second in zip(blocks[::2], blocks[1::2], strict=True))
    places: Counter[int] = Counter()
    for place, setting in enumerate(order):
        places[setting] += place
    assert places[0] == places[1] == places[2], "a drift would move one of them more"
    assert order == slice_order(3, 8, "seed") != slice_order(3, 8, "another seed")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("switch: 20ms", "not between 50ms and 10s"),
        ("switch: [100ms, 200ms]", "switch"),
        ("switch: 400ms\n    messages: 100", "leave messages out"),
        ("switch: 400ms\n    rate: 100/s for 1s then 200/s", "a rate that changes"),
        ("switch: 400ms\n    find: response.p99 < 10ms", "find"),
    ],
)
def test_bad_input_is_one_sentence(tmp_path: Path, more: str, words: str) -> None:
    with pytest.raises(StudyError, match=words):
        load_study(written(tmp_path, more))


def test_switch_needs_settings(tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(
        "study: none\ntitle: None\nscenarios:\n"
        "  A: {queues: 1, producers: 1, consumers: 1, message: {size: 12B}, switch: 400ms}\n"
    )
    with pytest.raises(StudyError, match="switch needs a setting with several values"):
        load_study(file)
