from collections.abc import Callable
from pathlib import Path

import pytest

from mqlab.study import Exhibit, Point, RepetitionRule, Study, estimate, load_study
from mqlab.study.expansion import merge
from mqlab.study.language.model import Layer
from mqlab.study.language.parameters import PARAMETERS
from mqlab.study.language.value_types import StrictModel

Write = Callable[..., Path]

HEAD = "study: mine\ntitle: Mine\n"
ROLES = "producers: 1, consumers: 1, message: {size: 1KiB}"


def study(write: Write, scenario: str, rest: str = "") -> Study:
    return load_study(write(f"{HEAD}scenarios:\n  A: {{{scenario}}}\n{rest}"))


def only_point(write: Write, scenario: str, rest: str = "", scale: str = "full") -> Point:
    (point,) = study(write, scenario, rest).points(scale)
    return point


def test_what_holds_when_little_is_written(write: Write) -> None:
    point = only_point(write, f"queues: 1, {ROLES}")
    assert point.name == ""
    assert point.label == "A"
    assert (point.domain, point.destinations, point.size, point.persistent) == ("queue", 1, 1024, False)
    assert (point.acknowledge, point.transaction, point.send, point.rate) == ("auto", 0, "free", None)
    assert (point.connections, point.batch) == ("each", 1)
    assert (point.phases.warmup, point.phases.measure, point.phases.drain) == (5.0, 30.0, 30.0)
    assert (point.repeat.until, point.repeat.least, point.repeat.most) == (RepetitionRule("interval", 0.03), 2, 5)


def test_lists_multiply_the_last_one_fastest(write: Write) -> None:
    points = study(write, "topics: 1, consumers: [1, 2], producers: 1, message: {size: [1KiB, 12B]}").points("full")
    assert [point.name for point in points] == [
        "consumers=1, size=1KiB",
        "consumers=1, size=12B",
        "consumers=2, size=1KiB",
        "consumers=2, size=12B",
    ]
    assert [(point.consumers, point.size) for point in points] == [(1, 1024), (1, 12), (2, 1024), (2, 12)]


def test_every_parameter_may_be_a_list(write: Write) -> None:
    swept = {
        "topics": "1, 2", "producers": "2, 3", "consumers": "2, 3", "send": "confirmed, free", "batch": "2, 1",
        "rate": "max, 5k/s", "connections": "each, shared",
    }  # fmt: skip
    groups = {
        "message": "size: [12B, 1KiB], persistent: [yes, no]",
        "session": "acknowledge: [auto], transaction: [none, 10]",
        "phases": "warmup: [0s], measure: [300ms], drain: [1min]",
    }
    lists = [f"{key}: [{values}]" for key, values in swept.items()]
    points = study(write, ", ".join([*lists, *(f"{key}: {{{keys}}}" for key, keys in groups.items())])).points("full")
    assert len(points) == len({point.name for point in points}) == 2**10
    assert points[-1].name == (
        "topics=2, producers=3, consumers=3, size=1KiB, persistent=no, acknowledge=auto, transaction=10, send=free,"
        " batch=1, rate=5k/s, connections=shared, warmup=0s, measure=300ms, drain=1min"
    )


def test_a_list_of_one_still_names_its_point(write: Write) -> None:
    """So that a scale which cuts a sweep to one value keeps the name that the point has at full scale."""
    text = "topics: 1, producers: [1, 2], consumers: 1, message: {size: 12B}"
    declared = study(write, text, "scales: {quick: {producers: [2]}}\n")
    assert [point.name for point in declared.points("quick")] == ["producers=2"]


def test_nearer_layers_win_key_by_key(write: Write) -> None:
    rest = (
        "defaults: {message: {size: 12B, persistent: yes}, phases: {warmup: 1s, measure: 9s}}\n"
        "scales: {quick: {phases: {measure: 2s}, repeat: {until: none, most: 4}}}\n"
    )
    point = only_point(write, f"topics: 1, {ROLES}", rest, "quick")
    assert (point.size, point.persistent) == (1024, True)
    assert (point.phases.warmup, point.phases.measure, point.phases.drain) == (1.0, 2.0, 30.0)
    assert (point.repeat.until, point.repeat.least, point.repeat.most) == (None, 4, 4)


def test_queues_take_the_place_of_topics(write: Write) -> None:
    assert only_point(write, f"queues: 1, {ROLES}", "defaults: {topics: [1, 2]}\n").domain == "queue"
    assert merge({"queues": 3}, {"topics": 1}) == {"topics": 1}
    assert merge({"queues": 3}, {"rate": None}) == {"queues": 3, "rate": None}


@pytest.mark.parametrize(
    ("parameters", "batch"),
    [
        ("message: {size: 12B}", 1),
        ("send: confirmed, session: {transaction: 10}, message: {size: 12B}", 1),
        ("message: {size: 12B}, batch: auto", 1),  # the former default
        ("message: {size: 12B}, send: confirmed, batch: 7", 7),
    ],
)
def test_a_producer_waits_for_each_confirmation_unless_it_has_batches(
    write: Write, parameters: str, batch: int
) -> None:
    assert only_point(write, f"topics: 1, producers: 2, consumers: 1, {parameters}").batch == batch


def test_only_keeps_the_order_of_the_file(write: Write) -> None:
    names = ("b", "a", "no", "5")
    text = HEAD + "scenarios:\n" + "".join(f"  {name}: {{topics: 1, {ROLES}}}\n" for name in names)
    declared = load_study(write(text))
    assert [point.scenario for point in declared.points("full")] == list(names)
    assert [point.scenario for point in declared.points("full", ["5", "b", "5"])] == ["b", "5"]


def test_a_point_comes_back_from_json(write: Write) -> None:
    points = study(write, f"topics: 1, {ROLES}, rate: [max, 5k/s]", "scales: {quick: {repeat: {until: none}}}\n")
    for point in (*points.points("full"), *points.points("quick")):
        assert Point.from_json(point.to_json()) == point


def test_estimates(write: Write) -> None:
    text = f"topics: 1, {ROLES}, rate: [max, 5k/s], phases: {{warmup: 1s, measure: 9s}}"
    expected = estimate(study(write, text).points("full"))
    assert (expected.least_runs, expected.most_runs) == (4, 10)
    assert (expected.least_seconds, expected.most_seconds) == (40.0, 100.0)


def test_the_table_of_parameters_is_complete() -> None:
    """`repeat`, `switch` and `together` are no parameters of a point: they cannot be swept."""
    declared = set()
    for name, field in Layer.model_fields.items():
        group = field.annotation
        if isinstance(group, type) and issubclass(group, StrictModel):
            declared |= {f"{name}.{key}" for key in group.model_fields}
        else:
            declared.add(name)
    assert {name for name in declared if not name.startswith(("repeat.", "switch", "together"))} == set(PARAMETERS)


def test_a_study_without_exhibits_has_the_usual_ones(write: Write) -> None:
    exhibits = study(write, f"topics: 1, {ROLES}").exhibits
    assert [exhibit.form for exhibit in exhibits] == ["matrix", "bars", "summary"]
    assert Exhibit("bars", "S {scenario}", each="scenario").title_for("A") == "S A"


def test_a_copy_is_the_same_study(write: Write, tmp_path: Path) -> None:
    path = write(
        f"{HEAD}scenarios:\n  A: {{topics: 1, {ROLES}}}\npublished: p.csv\nclaims: c.yaml\nsystems: {{Q: []}}\n",
        p_csv="study,table,system,scenario,parameters,metric,unit,value\nmine,T,Q,A,,rate.received,messages/s,5\n",
        c_yaml="- {id: a, says: b, source: c, check: 'rate.received[A] > 1'}\n",
    )
    original = load_study(path)
    folder = tmp_path / "copy"
    folder.mkdir()
    original.copy(folder)
    again = load_study(folder)
    assert again.points("full") == original.points("full")
    assert (again.claims, again.published) == (original.claims, original.published)
    assert [file.name for file in again.files] == ["study.yaml", "p.csv", "c.yaml"]
