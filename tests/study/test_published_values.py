from pathlib import Path

import pytest

from mqlab.study import PublishedValue, StudyError, load_study
from mqlab.study.published import read_published
from study.conftest import published_measures

HEADER = "study,table,system,scenario,parameters,metric,unit,value\n"


def read(tmp_path: Path, text: str) -> list[PublishedValue]:
    path = tmp_path / "published.csv"
    path.write_text(text, encoding="utf-8")
    return read_published(path, "mine")


def test_a_value(tmp_path: Path) -> None:
    row = 'mine,"Table 1, left",Q 1,A,size=12;ack=auto,throughput_received,messages/s,263\n'
    (value,) = read(tmp_path, HEADER + row)
    parameters = {"size": "12", "ack": "auto"}
    assert value == PublishedValue(
        "mine", "Table 1, left", "Q 1", "A", parameters, "throughput_received", "messages/s", 263.0, "263"
    )
    assert value.measure == "rate.received"


@pytest.mark.parametrize(
    ("metric", "unit", "measure"),
    [
        ("throughput_sent", "messages/s", "rate.sent"),
        ("throughput_received", "k messages/s", None),  # another unit is never compared
        ("latency.p99", "s", "latency.p99"),
        ("latency.p99", "ms", None),
        ("ratio", "times", None),
    ],
)
def test_what_it_counts_in_the_words_of_the_lab(tmp_path: Path, metric: str, unit: str, measure: str | None) -> None:
    (value,) = read(tmp_path, HEADER + f"mine,T,Q,A,,{metric},{unit},1\n")
    assert value.measure == measure


@pytest.mark.parametrize("text", ["N/A", "1/4", "", "nan", "inf"])
def test_what_is_no_number_is_kept_as_text(tmp_path: Path, text: str) -> None:
    (value,) = read(tmp_path, HEADER + f"mine,T,Q,A,,ratio,times,{text}\n")
    assert (value.value, value.text) == (None, text)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "the first line must be study,table"),
        ("a,b\n", 1, "the first line must be study,table"),
        (HEADER + "mine,T\n", 2, "2 columns, not 8"),
        (HEADER + "mine,T,Q,A,,m,u,1\nother,T,Q,A,,m,u,1\n", 3, "a value of the study 'other' in the file of 'mine'"),
        (HEADER + "mine,T,Q,A,size,m,u,1\n", 2, "parameters: 'size' is not a list like size=12;producers=1"),
        (HEADER + "mine,T,Q,A,,m,u,\x1b[2J\n", 2, "cannot be printed"),
        (HEADER + 'mine,"T,Q,A,,m,u,1\n', 2, "is not CSV"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, line: int, message: str) -> None:
    with pytest.raises(StudyError) as caught:
        read(tmp_path, text)
    assert caught.value.line == line
    assert message in str(caught.value)


def test_only_what_was_printed_once_for_a_scenario_stands_for_it(tmp_path: Path) -> None:
    rows = [
        "A,,rate.received,messages/s,5",
        "A,,rate.received,messages/s,5.0",  # the same figure in a second table
        "B,size=12,rate.received,messages/s,5",
        "B,size=99,rate.received,messages/s,6",
        "A,,rate.sent,messages/s,N/A",
        "the rest,,rate.received,messages/s,7",
    ]
    (tmp_path / "published.csv").write_text(HEADER + "".join(f"mine,T,Q,{row}\n" for row in rows))
    (tmp_path / "study.yaml").write_text(
        "study: mine\ntitle: Mine\npublished: published.csv\nsystems: {Q: []}\n"
        "defaults: {topics: 1, producers: 1, consumers: 1, message: {size: 12B}}\nscenarios: {A: {}, B: {}}\n"
    )
    assert published_measures(load_study(tmp_path)) == {("Q", "A", "rate.received"): 5.0}
