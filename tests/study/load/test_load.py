"""The load as a study writes it: sizes that differ, bodies from files, properties, and recorded rates."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mqlab.study import Point, StudyError, load_study, required_features
from mqlab.study.language.rates import parse_profile
from mqlab.study.load.body_files import decode_body
from mqlab.study.load.property_values import PropertyValues, parse_property
from mqlab.study.load.sizes import parse_sizes
from mqlab.study.load.templates import parse_template

Write = Callable[..., Path]
HEAD = "study: mine\ntitle: Mine\ndefaults: {queues: 1, producers: 1, consumers: 1}\nscenarios:\n  A: "


def points(write: Write, scenario: str, **files: str) -> list[Point]:
    return load_study(write(HEAD + scenario, **files)).points("full")


def test_a_mix_has_a_share_for_each_size() -> None:
    mix = parse_sizes("70% 100B, 25% 1KiB, 5% 64KiB")
    assert (mix.sizes, mix.shares) == ((100, 1024, 65536), (0.7, 0.25, 0.05))
    assert mix.mean == pytest.approx(0.7 * 100 + 0.25 * 1024 + 0.05 * 65536)
    assert parse_sizes(mix.text) == mix


def test_a_distribution_has_its_median_and_its_p99() -> None:
    drawn = parse_sizes("median 1KiB, p99 64KiB")
    ordered = sorted(drawn.sizes)
    assert ordered[500] == pytest.approx(1024, rel=0.02)
    assert ordered[989] < 65536 < ordered[990]
    assert sum(drawn.shares) == pytest.approx(1)
    assert parse_sizes(drawn.text) == drawn
    assert min(parse_sizes("median 24B, p99 8MiB").sizes) == 24
    assert max(parse_sizes("median 24B, p99 8MiB").sizes) == 8 * 2**20


def test_a_point_has_its_mean_size_and_the_words_of_the_study(write: Write) -> None:
    mixed, fixed = points(write, '{message: {size: ["50% 12B, 50% 1KB", 2KiB]}}')
    assert (mixed.name, mixed.size, mixed.bodies) == ("size=50% 12B + 50% 1KB", 506, "50% 12B, 50% 1KB")
    assert (mixed.has_varied_bodies, mixed.body_sizes) == (True, (12, 1000))
    assert (fixed.name, fixed.size, fixed.sizes, fixed.bodies) == ("size=2KiB", 2048, "", "2KiB")
    assert Point.from_json(mixed.to_json()) == mixed


def test_files_are_bodies_and_part_of_the_point(write: Write, tmp_path: Path) -> None:
    (tmp_path / "payloads").mkdir()
    for name, content in (("b.json", '{"order": 1}'), ("a.txt", "a"), (".hidden", "never")):
        (tmp_path / "payloads" / name).write_text(content)
    text = HEAD + "{message: {size: 1KiB}}\n  B: {message: {body: files in payloads at random, seed: 7}}\n"
    path = write(text.replace("{queues", "{message: {size: 1MiB}, queues"))
    study = load_study(path)
    one_size, files = study.points("full")
    assert (one_size.size, one_size.body) == (1024, "")
    assert [decode_body(content) for content in files.contents] == [b"a", b'{"order": 1}']
    assert (files.size, files.seed, files.bodies) == (18, 7, "files in payloads at random (2, 13B to 24B)")
    copy = tmp_path / "copy"
    copy.mkdir()
    study.copy(copy)
    assert load_study(copy).points("full") == [one_size, files]


def test_a_template_makes_bodies(write: Write) -> None:
    text = '{"n": ${number}, "colour": "${choice red|blue}", "amount": ${random 1 to 999}}'
    (made,) = points(write, "{message: {body: template order.json}}", order_json=text)
    template = parse_template(decode_body(made.contents[0]).decode())
    assert template.render(7, [0.0, 0.99, 0.5]) == b'{"n": 7, "colour": "blue", "amount": 500}'
    plain = len('{"n": , "colour": "", "amount": }')
    assert made.body_sizes == (12 + plain + 1 + 3 + 1, 12 + plain + 12 + 4 + 3)
    assert made.body_sizes[0] < made.size < made.body_sizes[1]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("7", PropertyValues(range(7, 8))),
        ("1 to 8", PropertyValues(range(1, 9))),
        ("0 to 2147483647", PropertyValues(range(2**31))),
        ("0 to 3 in turn", PropertyValues(range(4), in_turn=True)),
        ("zipf 1000", PropertyValues(range(1, 1001), skew=1.0)),
        ("zipf 10 by 1.5", PropertyValues(range(1, 11), skew=1.5)),
        ("blue", PropertyValues(("blue",))),
        ("red|dark green|7", PropertyValues(("red", "dark green", "7"))),
        ("red|green in turn", PropertyValues(("red", "green"), in_turn=True)),
        ("zipf red|green|blue by 2", PropertyValues(("red", "green", "blue"), skew=2.0)),
        ("70% red, 30% dark green", PropertyValues(("red", "dark green"), shares=(0.7, 0.3))),
        ("90% 4 + 10% 9", PropertyValues((4, 9), shares=(0.9, 0.1))),
    ],
)
def test_values_of_a_property(text: str, values: PropertyValues) -> None:
    assert parse_property(text) == values


def test_pauses_and_profiles_that_begin_again() -> None:
    profile = parse_profile("0/s for 1s then 10/s for 1s then 0/s for 2s then again")
    assert [profile.time_of(message) for message in (0, 5, 10, 15)] == [1.0, 1.5, 5.0, 5.5]
    ends = parse_profile("10/s for 1s then 0/s for 5s")
    assert ends.time_of(9) == pytest.approx(0.9)
    assert ends.time_of(10) > 1e6, "after the last pause comes nothing"
    assert parse_profile("0/s to 10/s over 2s").time_of(0) == 0
    assert parse_profile("0/s with 10/s for 1s every 5s").time_of(10) == 9.0


def test_a_recorded_load_is_a_profile_that_begins_again(write: Write) -> None:
    scenario = "{message: {size: 12B}, rate: [counts in counts.txt, times in times.txt]}"
    counted, timed = points(
        write, scenario, counts_txt="# a second each\n10\n10\n\n0\n5\n", times_txt="5.05\n5\n5.31\n"
    )
    assert counted.profile == "10/s for 2000ms then 0/s for 1000ms then 5/s for 1000ms then again"
    assert counted.pace == counted.parameters["rate"] == "counts in counts.txt"
    assert timed.profile == "20/s for 100ms then 0/s for 200ms then 10/s for 100ms then again"


@pytest.mark.parametrize(
    ("scenario", "reason"),
    [
        ('{message: {size: "70% 100B, 20% 1KiB"}}', "make 90%, not 100%"),
        ('{message: {size: "100% 5B"}}', "'5B' is too small"),
        ('{message: {size: "50% 100B, 50% 100B"}}', "100B is there twice"),
        ('{message: {size: "50% 100B, 1KiB"}}', "'1KiB' is not a share and a size"),
        ('{message: {size: "median 1KiB, p99 100B"}}', "below the p99"),
        ("{message: {body: files in ../secret}}", "write files in FOLDER"),
        ("{message: {body: template nowhere.txt}}", "nowhere.txt cannot be read"),
        ("{message: {body: template fields.txt}}", "fields.txt: '${colour}' is not a field; write ${number}"),
        ("{message: {body: files in nowhere}}", "nowhere cannot be read"),
        ("{message: {body: files in empty}}", "empty is an empty folder"),
        ("{message: {body: files in linked}}", "leads out of the study's folder"),
        ("{message: {body: files in full, size: 1KiB}}", "have sizes of their own"),
        ("{message: {size: 12B, properties: {seq: 1}}}", "take another name"),
        ("{message: {size: 12B, properties: {tenant: zipf 1}}}", "from 2 to 1,000,000"),
        ("{message: {size: 12B, properties: {tenant: 8 to 1}}}", "above the first"),
        ("{message: {size: 12B, properties: {tenant: 1 too 8}}}", "is not a property's value"),
        ("{message: {size: 12B, properties: {tenant: dark blue}}}", "is not a property's value"),
        ("{message: {size: 12B, properties: {tenant: red|red}}}", "a text is there twice"),
        ("{message: {size: 12B, properties: {tenant: blue in turn}}}", "one value cannot come in turn"),
        ("{message: {size: 12B, properties: {tenant: 60% a + 30% b}}}", "make 90%, not 100%"),
        ("{message: {size: 12B, properties: {tenant: 50% a + 50% a}}}", "a is there twice"),
        ("{message: {size: 12B, priority: 5 to 12}}", "is not a priority"),
        ("{message: {size: 12B, priority: high}}", "is not a priority"),
        ("{message: {size: 12B, expires: 0s}}", "is too short"),
        ("{message: {size: 12B}, rate: 0/s for 5s then 0/s}", "has no messages"),
        ("{message: {size: 12B}, rate: 0/s}", "is not a rate"),
        ("{message: {size: 12B}, rate: 5/s then again}", "has no end"),
        ("{message: {size: 12B}, rate: counts in nowhere.txt}", "nowhere.txt cannot be read"),
        ("{message: {size: 12B}, rate: counts in bad.txt}", "bad.txt, line 2: '-3' is not a whole number of messages"),
        ("{message: {size: 12B}, rate: times in empty.txt}", "empty.txt has no messages"),
        ("{message: {size: 12B}, rate: numbers in bad.txt}", "write counts in FILE or times in FILE"),
        ('{message: {size: "50% 12B, 50% 1KB"}, send: confirmed, batch: 2}', "leave out batch: 2"),
    ],
)
def test_what_a_load_cannot_be(write: Write, tmp_path: Path, scenario: str, reason: str) -> None:
    folder = tmp_path / "study"
    folder.mkdir()
    for name in ("empty", "full"):
        (folder / name).mkdir()
    (folder / "full" / "a").write_text("a")
    (folder / "linked").symlink_to(tmp_path)
    (folder / "bad.txt").write_text("1\n-3\n")
    (folder / "empty.txt").write_text("")
    (folder / "fields.txt").write_text("${number} ${colour}")
    path = write(HEAD + scenario).rename(folder / "my.yaml")
    with pytest.raises(StudyError, match=r"my\.yaml:5: ") as error:
        load_study(path)
    assert reason in str(error.value)


def test_headers_are_parameters(write: Write) -> None:
    none, some = points(write, '{message: {size: 12B, priority: [none, "90% 4, 10% 9"], expires: 10min, key: zipf 9}}')
    assert (none.name, none.priority, none.expires, none.key) == ("priority=none", "", 600.0, "zipf 9")
    assert (some.name, some.priority) == ("priority=90% 4 + 10% 9", "90% 4 + 10% 9")
    assert none.has_headers
    assert not points(write, "{message: {size: 12B}}")[0].has_headers
    needed = required_features(some)
    assert {"priority", "expiry", "keys"} <= {*needed}
    assert not {"properties", "selectors"} & {*needed}


def test_destinations_have_shares(write: Write) -> None:
    text = "study: m\ntitle: M\nscenarios:\n  A: {queues: 3, producers: 5, consumers: 3, message: {size: 12B}, "
    listed, skewed = load_study(write(text + 'rate: 100/s, shares: ["50%, 30%, 20%", zipf]}')).points("full")
    assert listed.name == "shares=50% + 30% + 20%"
    # Destinations 0 and 1 have two producers each.
    assert [round(100 / listed.rate_parts(destination)) for destination in range(3)] == [25, 15, 20]
    assert sum(100 / skewed.rate_parts(number % 3) for number in range(5)) == pytest.approx(100)
    counted = listed.model_copy(update={"messages": 101})
    sent = [counted.message_share(number) or 0 for number in range(5)]
    assert (sent, sum(sent)) == ([25, 16, 20, 25, 15], 101)
    for parameters, reason in (
        ("shares: 50% + 50%, rate: 1/s", "are 2 shares, and there are 3"),
        ("shares: zipf", "need a rate or a number of messages"),
        ("shares: 50% + 50% + 1%, rate: 1/s", "make 100%"),
    ):
        with pytest.raises(StudyError, match=reason):
            load_study(write(f"{text}{parameters}}}"))


def test_properties_need_no_selectors(write: Write) -> None:
    (with_properties,) = points(write, "{message: {size: 12B, properties: {tenant: zipf 9}}}")
    assert "properties" in required_features(with_properties)
    assert "selectors" not in required_features(with_properties)
    (with_selector,) = points(write, "{message: {size: 12B}, selector: seq >= 0}")
    assert {"properties", "selectors"} <= {*required_features(with_selector)}


@pytest.mark.parametrize("header", ["priority: 4", "expires: 1h", "key: a|b", "properties: {tenant: 7}"])
def test_requests_have_no_headers(write: Write, header: str) -> None:
    text = "study: m\ntitle: M\nscenarios:\n  A: {pattern: request-reply, queues: 1, requesters: 1, responders: 1, "
    with pytest.raises(StudyError, match=f"message.{header.partition(':')[0]} does not belong"):
        load_study(write(f"{text}message: {{size: 24B, {header}}}}}"))


def test_a_body_of_a_reply_has_room_for_two_ids(write: Write) -> None:
    text = "study: m\ntitle: M\nscenarios:\n  A: {pattern: request-reply, queues: 1, requesters: 1, responders: 1, "
    with pytest.raises(StudyError, match="at least 24B here"):
        load_study(write(text + 'message: {size: "50% 20B, 50% 1KB"}}'))
