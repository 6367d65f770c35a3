"""What was printed is found by the parameters of a point."""

from pathlib import Path

import pytest

from mqlab.study import Point, Study, load_study
from mqlab.study.published import lab_parameters, reproduces

HEADER = "study,table,system,scenario,parameters,metric,unit,value\n"
COMMON = "size=1024;persistent=yes"
ROWS = f"""\
mine,Table 1,Q 1,Test,{COMMON};requesters=300;trace=off;api_trace=no,throughput,messages/s,100
mine,Table 1,Q 1,Test,{COMMON};requesters=300;trace=low;api_trace=no,throughput,messages/s,60
mine,Table 1,Q 1,Test,{COMMON};requesters=300;trace=low;api_trace=no,percent_decrease,%,40
mine,Table 12,Q 1,Test,{COMMON};requesters=300;trace=low;api_trace=no,throughput,messages/s,61
mine,Table 1,Q 1,Test,{COMMON};requesters=300;trace=off;api_trace=yes,throughput,messages/s,50
mine,Table 1,Q 1,Test,{COMMON};requesters=1..300;trace=off;api_trace=no,bytes_per_second,KB/s (1 KB = 1000 bytes),204.8
mine,Table 1,Q 2,Test,{COMMON};requesters=300;trace=off;api_trace=no;aggregate=max,throughput,messages/s,70
mine,Table 1,Q 1,Test,{COMMON};requesters=1;trace=off;api_trace=no,response_time,ms,35.9
mine,Table 1,Q 1 / Q 2,Test,{COMMON};requesters=300;trace=off;api_trace=no,ratio,times,1/4
mine,Table 1,Q 2 vs Q 1,Test,{COMMON};requesters=300;trace=off;api_trace=no,percent_faster,%,300
"""
STUDY = """study: mine
title: Mine
systems: {Q 1: [], Q 2: []}
published: published.csv
scenarios:
  A:
    published: [Test, Other]
    pattern: request-reply
    queues: 1
    requesters: [1, 300]
    responders: 1
    message: {size: 1KiB, persistent: yes}
    settings: {trace: [off, low, off], api_trace: [no, no, yes]}
    together: [[trace, api_trace]]
    base: {trace: off, api_trace: no}
"""


@pytest.fixture
def study(tmp_path: Path) -> Study:
    (tmp_path / "published.csv").write_text(HEADER + ROWS)
    (tmp_path / "study.yaml").write_text(STUDY)
    return load_study(tmp_path)


def point(study: Study, **parameters: str) -> Point:
    found = [each for each in study.points("full") if parameters.items() <= each.parameters.items()]
    assert len(found) == 1
    return found[0]


def test_a_point_is_found_by_its_parameters(study: Study) -> None:
    off = point(study, requesters="300", trace="off", api_trace="no")
    assert study.published_value("Q 1", off, "rate.round_trips") == 100
    assert study.published_value("Q 1", off, "rate.work") == 100
    assert study.published_value("Q 1", off, "rate.received") is None
    assert study.published_value("Q 2", off, "cpu.broker") is None
    assert study.published_value("Q 1", point(study, requesters="1", trace="low"), "rate.work") is None
    assert study.published_value("Q 1", point(study, requesters="300", api_trace="yes"), "rate.work") == 50


def test_the_title_chooses_among_several(study: Study) -> None:
    low = point(study, requesters="300", trace="low")
    assert study.published_value("Q 1", low, "rate.work") == 60
    assert study.published_value("Q 1", low, "rate.work", table="Table 12: all of it") == 61
    assert study.published_value("Q 1", low, "rate.work", table="Table 1: all of it") == 60


def test_units_are_ours_and_the_text_is_theirs(study: Study) -> None:
    found = study.find_published("Q 1", point(study, requesters="1", trace="off", api_trace="no"), "response.mean")
    assert found is not None
    assert (found.value, found.text) == (0.0359, "35.9")
    assert study.published_value("Q 1", point(study, requesters="300", trace="low"), "impact") == -40


def test_peaks_are_found_from_any_point_of_their_sweep(study: Study) -> None:
    for requesters in ("1", "300"):
        where = point(study, requesters=requesters, trace="off", api_trace="no")
        assert study.published_value("Q 1", where, "bytes.round_trips", over=["requesters"]) == 204_800
        assert study.published_value("Q 1", where, "bytes.round_trips") is None


def test_a_peak_that_was_printed_with_its_place(study: Study) -> None:
    there = point(study, requesters="300", trace="off", api_trace="no")
    elsewhere = point(study, requesters="1", trace="off", api_trace="no")
    assert study.published_value("Q 2", there, "rate.work") == 70
    assert study.published_value("Q 2", elsewhere, "rate.work") is None
    assert study.published_value("Q 2", elsewhere, "rate.work", over=["requesters"]) == 70
    assert study.published_value("Q 1", there, "rate.work", over=["requesters"]) is None


def test_comparisons_of_two_systems(study: Study) -> None:
    off = point(study, requesters="300", trace="off", api_trace="no")
    ratio, faster = study.find_published("Q 1 / Q 2", off, "ratio"), study.find_published("Q 1 / Q 2", off, "faster")
    assert ratio is not None
    assert (ratio.value, ratio.text) == (None, "1/4")
    assert faster is not None
    assert (faster.value, faster.system) == (300, "Q 2 vs Q 1")
    assert study.find_published("Q 2 / Q 1", off, "ratio") is None


@pytest.mark.parametrize(
    ("printed", "ours"),
    [
        ({"size": "65536", "domain": "queue"}, {"size": "64KiB"}),
        ({"ack": "dups_ok", "tx_size": "10"}, {"acknowledge": "dups_ok", "transaction": "10"}),
        ({"ack": "n/a", "consumers": "0", "producers": "1"}, {"producers": "1"}),
        ({"durable": "yes(results section, not appendix A)"}, {"durable": "yes"}),
        ({"trace": "medium", "pairs": "5"}, {"trace": "medium", "traced": "5"}),
    ],
)
def test_words_of_the_studies(printed: dict[str, str], ours: dict[str, str]) -> None:
    assert lab_parameters(printed) == ours


@pytest.mark.parametrize(
    ("title", "table", "same"),
    [
        ("Table 1", "Table 1", True),
        ("Table 1: rates", "Table 1 caption", True),
        ("Table 12", "Table 1", False),
        ("", "Table 1", False),
    ],
)
def test_titles_and_tables(title: str, table: str, same: bool) -> None:
    assert reproduces(title, table) == same
