"""Rate profiles as a study writes them, and as points."""

from pathlib import Path

from mqlab.study import Point, load_study
from mqlab.study.steadiness import is_judged

STUDY = """
study: mine
title: Mine
defaults: {queues: 1, producers: 1, consumers: 1, message: {size: 12B}}
scenarios:
  A: {rate: [max, 100/s, 70%, 100/s for 5s then 1k/s, 10/s with 1k/s for 1s every 5s]}
  B: {think: [none, 10ms]}
"""


def test_points_with_a_profile_and_with_think_time(tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(STUDY)
    points = load_study(file, own=True).points("full")
    steps, bursts = points[3], points[4]
    assert (steps.name, steps.profile, steps.rate) == ("rate=100/s for 5s then 1k/s", "100/s for 5s then 1k/s", None)
    assert bursts.parameters["rate"] == bursts.pace == "10/s with 1k/s for 1s every 5s"
    assert [point.loop for point in points] == ["closed", "open", "open", "open", "open", "closed", "closed"]
    assert [is_judged(point) for point in points] == [True, True, True, False, False, True, True]
    thinks = points[-1]
    assert (thinks.name, thinks.think, thinks.pace) == ("think=10ms", 0.01, "max, 10ms between messages")
    assert [point.is_unthrottled for point in points[-2:]] == [True, False]
    assert Point.from_json(bursts.to_json()) == bursts
