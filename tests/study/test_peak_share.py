"""A rate may be a share of the peak, which an earlier point of the same workload measures."""

from pathlib import Path

import pytest

from mqlab.study import StudyError, load_study, published_studies
from mqlab.study.metric import is_duration

STUDY = """study: ours
title: Ours
defaults: {message: {size: 12B}}
scenarios:
  A: {queues: 1, producers: 2, consumers: 1, %s}
  B: {queues: 1, producers: 1, consumers: 1}
exhibits:
  - {table: All, by: [scenario], columns: [{value: rate.sent}]}
  - {table: Ours, of: [A], by: [rate], columns: [{value: rate.sent}]}
"""


def write(folder: Path, parameters: str) -> Path:
    file = folder / "study.yaml"
    file.write_text(STUDY % parameters)
    return file


def test_a_share_has_the_workload_of_its_peak(tmp_path: Path) -> None:
    study = load_study(write(tmp_path, "message: {size: [12B, 1KiB]}, rate: [max, 70%]"), own=True)
    points = study.points("full", ["A"])
    assert [point.name for point in points] == [
        "size=12B, rate=max", "size=12B, rate=70%", "size=1KiB, rate=max", "size=1KiB, rate=70%"
    ]  # fmt: skip
    assert [(point.rate, point.peak_share, point.loop, point.pace) for point in points[:2]] == [
        (None, None, "closed", "max"), (None, 0.7, "open", "70% of the peak"),
    ]  # fmt: skip
    assert [point.workload == points[0].workload for point in points] == [True, True, False, False]
    assert not points[1].is_unthrottled


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ("rate: 70%", "rate: 70% of the peak needs the peak; write max before it, like rate: [max, 70%]"),
        ("rate: [70%, max]", "rate: 70% of the peak needs the peak"),
        ("rate: [max, 70%], batch: [1, 2], together: [[rate, batch]]", "rate: 70% of the peak needs the peak"),
        ("rate: [max, 0%]", "'0%' is not a share of the peak; write one above 0% and at most 100%"),
        ("rate: [max, 101%]", "'101%' is not a share of the peak"),
        ("consume_rate: 70%", "'70%' is not a rate; write 100/s, 5k/s, 1.5M/s or max"),
    ],
)
def test_a_share_without_a_peak_is_an_error(tmp_path: Path, parameters: str, why: str) -> None:
    with pytest.raises(StudyError) as caught:
        load_study(write(tmp_path, parameters), own=True)
    assert why in str(caught.value)


def test_exhibits_of_the_study_leave_the_labs_own_scenario_out(tmp_path: Path) -> None:
    study = load_study(write(tmp_path, "rate: [max, 70%]"), own=True)
    of_all, of_ours = study.exhibits
    assert [point.scenario for point in of_all.select_points(study.points("full"))] == ["B"]
    assert len(of_ours.select_points(study.points("full"))) == 2


def test_a_fixed_amount_of_work_can_be_taken_back(tmp_path: Path) -> None:
    text = STUDY.replace("size: 12B}}", "size: 12B}, messages: 100}") % "messages: none, phases: {measure: 3s}"
    file = tmp_path / "study.yaml"
    file.write_text(text)
    point, _ = load_study(file, own=True).points("full")
    assert (point.messages, point.phases.measure) == (None, 3.0)


@pytest.mark.parametrize("name", published_studies())
@pytest.mark.parametrize("scale", ["quick", "standard", "full"])
def test_every_published_study_shows_durations_at_four_shares_of_the_peak(name: str, scale: str) -> None:
    study = load_study(name)
    points = study.points(scale)
    shares = [point.peak_share for point in points if point.peak_share is not None]
    assert shares == [0.5, 0.7, 0.8, 0.9]
    (exhibit,) = [one for one in study.exhibits if one.of == ("open-loop",)]
    assert [point.peak_share for point in exhibit.select_points(points)] == shares
    assert exhibit.title.startswith("The lab's own: ")
    assert sum(is_duration(view.metric) for view in exhibit.views) == 4
