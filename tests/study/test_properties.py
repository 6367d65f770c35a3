"""What holds for any study that can be written, not only for those of the tables."""

from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.json_values import JsonObject
from mqlab.study import Point, Study, StudyError, load_study

# At most thirteen lists of two: a study has at most 10,000 points.
values = {
    "producers": st.integers(8, 40).map(str),
    "consumers": st.integers(8, 40).map(str),
    "message.size": st.sampled_from(["12B", "100B", "1KB", "1KiB", "64KiB", "1.5KiB"]),
    "message.persistent": st.sampled_from(["yes", "no"]),
    "session.transaction": st.sampled_from(["none", "1", "10", "50"]),
    "prefetch": st.sampled_from(["auto", "1", "500"]),
    "send": st.sampled_from(["confirmed", "free"]),
    "batch": st.sampled_from(["auto", "2"]),
    "rate": st.sampled_from(["max", "100/s", "5k/s", "1.5M/s"]),
    "connections": st.sampled_from(["each", "shared"]),
    "phases.warmup": st.sampled_from(["0s", "300ms", "2s"]),
    "phases.measure": st.sampled_from(["300ms", "2s", "1h"]),
}
required = ("producers", "consumers", "message.size")


@st.composite
def layers(draw: st.DrawFn) -> JsonObject:
    """The parameters of a scenario: some of them lists, some left out."""
    destinations = draw(st.sampled_from(["topics", "queues"]))
    layer: JsonObject = {destinations: draw(st.one_of(st.just("1"), st.just(["1", "8"])))}
    for name, value in values.items():
        if name not in required and draw(st.booleans()):
            continue
        group, _, key = name.rpartition(".")
        chosen = draw(st.one_of(value, st.lists(value, min_size=1, max_size=2, unique=True)))
        (layer.setdefault(group, {}) if group else layer)[key] = chosen
    return layer


def lists_of(layer: JsonObject) -> list[list[str]]:
    flat = [value for part in layer.values() for value in (part.values() if isinstance(part, dict) else [part])]
    return [value for value in flat if isinstance(value, list)]


def load(document: object) -> Study:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "my.yaml"
        path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
        return load_study(path)


names = st.text(st.characters(codec="utf-8", categories=["L", "N"]), min_size=1, max_size=8)
documents = st.dictionaries(names, layers(), min_size=1, max_size=3).map(
    lambda scenarios: {"study": "mine", "title": "Mine", "scenarios": scenarios}
)


@settings(max_examples=60, deadline=None)
@given(documents)
def test_a_study_expands_to_the_product_of_its_lists(document: JsonObject) -> None:
    study = load(document)
    for scale in study.scales:
        points = study.points(scale)
        assert list(dict.fromkeys(point.scenario for point in points)) == list(document["scenarios"])
        assert len({point.label for point in points}) == len(points)
        for name, layer in document["scenarios"].items():
            # The phases of the shorter scales take the place of a sweep over them.
            kept = {key: part for key, part in layer.items() if scale == "full" or key != "phases"}
            assert len(study.points(scale, [name])) == prod(map(len, lists_of(kept)))
        assert all(Point.from_json(point.to_json()) == point for point in points)


def places(document: JsonObject, where: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every group of keys in which a wrong key can be written; under `scenarios` any name is right."""
    groups = {key: value for key, value in document.items() if isinstance(value, dict)}
    inner = [place for key, group in groups.items() for place in places(group, (*where, key))]
    return inner if where == ("scenarios",) else [where, *inner]


@settings(max_examples=60, deadline=None)
@given(documents, st.data())
def test_an_unknown_key_anywhere_is_told_with_its_line(document: JsonObject, data: st.DataObject) -> None:
    where = data.draw(st.sampled_from(places(document)))
    group = document
    for key in where:
        group = group[key]
    group["unheard-of"] = "1"
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    line = next(number for number, found in enumerate(text.splitlines(), 1) if found.strip().startswith("unheard-of:"))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "my.yaml"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(StudyError) as caught:
            load_study(path)
    assert str(caught.value).startswith(f"{path}:{line}: {'.'.join((*where, 'unheard-of'))}: unknown key; ")


keys = st.sampled_from(["study", "title", "scenarios", "defaults", "message", "size", "claims", "exhibits", "repeat"])
anything = st.recursive(
    st.text(max_size=6), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4)
)


@settings(max_examples=150, deadline=None)
@given(anything)
def test_any_document_is_refused_with_one_sentence(document: object) -> None:
    with pytest.raises(StudyError) as caught:
        load(document)
    assert str(caught.value).isprintable()
