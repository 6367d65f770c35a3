"""Bodies and properties that differ: what is sent can be computed from the number of a message, and is compared."""

import asyncio
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from mqlab.drivers import Sender
from mqlab.drivers.api import Matrix, MessageHeaders, Properties
from mqlab.runner.agents.bodies import BodyMaker, is_reply_to
from mqlab.runner.agents.varied.bodies import VariedMaker, body_check, single_maker
from mqlab.runner.agents.varied.variants import HeaderColumns, PropertyColumns, body_variants, draw, sequence
from mqlab.study import Point, load_study
from mqlab.wire.native.bodies import Bodies
from runner.lab import Recount, conducted, rows
from runner.points import point

MIX = "50% 12B + 30% 100B + 20% 1KiB"


def of_files(tmp_path: Path, body: str, contents: tuple[bytes, ...]) -> Point:
    (tmp_path / "payloads").mkdir()
    for number, content in enumerate(contents):
        (tmp_path / "payloads" / f"{number}").write_bytes(content)
    (tmp_path / "study.yaml").write_text(
        f"study: s\ntitle: S\nscenarios:\n  A: {{queues: 1, producers: 1, consumers: 1, message: {{body: {body}}}}}\n"
    )
    return load_study(tmp_path).points("full")[0]


def made(varied: Point, count: int, producer: int = 3) -> list[bytes]:
    maker = single_maker(producer, varied)
    return [maker.make_single(seq) for seq in range(count)]


def test_sizes_have_their_shares_and_depend_on_the_seed_only() -> None:
    varied = point(sizes=MIX)
    sizes = Counter(map(len, made(varied, 4000)))
    assert {size: round(count / 4000, 1) for size, count in sizes.items()} == {12: 0.5, 100: 0.3, 1024: 0.2}
    assert made(varied, 50) == made(point(sizes=MIX), 50)
    lengths = [
        [*map(len, made(point(sizes=MIX, seed=seed), 50, producer))] for seed, producer in ((1, 3), (2, 3), (1, 4))
    ]
    assert lengths[0] != lengths[1] != lengths[2] != lengths[0]


def test_draws_are_even() -> None:
    drawn = draw(5, 0, sequence(2**32 - 5000, 10_000))
    counts, _ = np.histogram(drawn, bins=10, range=(0, 1))
    assert counts.min() > 850
    assert counts.max() < 1150


class RecordingSender(Sender):
    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.columns: list[int] = []
        self.priorities: list[int] = []

    async def send(
        self, bodies: Matrix, *, wait: bool, properties: Properties | None = None, headers: MessageHeaders | None = None
    ) -> None:
        assert wait
        assert headers is not None
        assert headers.priority is not None
        self.priorities += headers.priority.tolist()
        assert properties is not None
        self.bodies += [row.tobytes() for row in bodies]
        self.columns += [int(value) for value in properties["key"].tolist()]

    async def close(self) -> None:
        pass


def test_a_sender_gets_each_body_in_its_order_with_its_properties() -> None:
    varied, sender = point(sizes=MIX), RecordingSender()
    variants = body_variants(varied)
    assert variants is not None
    send = VariedMaker(3, variants).sender(sender)
    ids = BodyMaker(3, 12, 100).make(0, 100)
    headers = MessageHeaders(priority=np.arange(100) % 10)
    asyncio.run(send(ids, wait=True, properties={"key": np.arange(100)}, headers=headers))  # type: ignore[arg-type]
    assert sender.bodies == made(varied, 100)
    assert sender.columns == [*range(100)]
    assert sender.priorities == [*range(10)] * 10
    assert variants.total_size(3, 0, 100) == sum(map(len, sender.bodies))


def test_damage_is_found(tmp_path: Path) -> None:
    for varied in (point(sizes=MIX), of_files(tmp_path, "files in payloads", (b"one", b"one and two", b""))):
        check, bodies = body_check(varied), made(varied, 60)
        assert check.find_damaged(Bodies.of(bodies)) is None
        longest = max(range(60), key=lambda row: len(bodies[row]))
        for changed in (bodies[longest][:-1], bodies[longest] + b"x", bodies[longest][:-1] + b"\xff"):
            damaged = check.find_damaged(Bodies.of([*bodies[:longest], changed, *bodies[longest + 1 :]]))
            assert damaged is not None
            assert np.flatnonzero(damaged).tolist() == [longest]


def test_files_come_in_turn_or_at_random(tmp_path: Path) -> None:
    in_turn = of_files(tmp_path, "files in payloads", (b"a", b"bb", b"ccc"))
    assert [body[12:] for body in made(in_turn, 4)] == [b"a", b"bb", b"ccc", b"a"]
    at_random = in_turn.model_copy(update={"body": "files in payloads at random"})
    counts = Counter(body[12:] for body in made(at_random, 3000))
    assert all(900 < counts[content] < 1100 for content in (b"a", b"bb", b"ccc"))


def test_a_template_draws_each_field_by_itself(tmp_path: Path) -> None:
    (tmp_path / "order.txt").write_text("${number};${choice a|b};${choice a|b};${random 1 to 1000}")
    varied = of_files(tmp_path, "template order.txt", ())
    bodies = made(varied, 2000)
    fields = [body[12:].decode().split(";") for body in bodies]
    assert [int(number) for number, *_ in fields] == [*range(2000)]
    pairs = Counter((first, second) for _, first, second, _ in fields)
    assert len(pairs) == 4
    assert min(pairs.values()) > 400
    assert {len(amount) for *_, amount in fields} >= {1, 2, 3}
    check = body_check(varied)
    assert check.find_damaged(Bodies.of(bodies)) is None
    damaged = check.find_damaged(Bodies.of([bodies[0], bodies[1][:12] + bodies[2][12:]]))
    assert damaged is not None
    assert damaged.tolist() == [False, True]


def test_a_reply_has_the_id_of_its_request_and_a_size_of_its_own() -> None:
    varied = point(sizes="50% 24B + 50% 1KiB")
    requests, responder, check = made(varied, 20), single_maker(9, varied), body_check(varied)
    replies = [responder.make_reply(seq, request) for seq, request in enumerate(requests)]
    assert all(map(is_reply_to, requests, replies))
    assert {*map(len, replies)} == {24, 1024}
    assert not any(map(check.is_damaged_reply, replies))
    assert check.is_damaged_reply(max(replies, key=len)[:-1])


def test_properties_are_fixed_in_turn_or_skewed() -> None:
    texts = {"class": "7", "shard": "1 to 3 in turn", "region": "1 to 4", "tenant": "zipf 100"}
    columns = PropertyColumns(point(properties=texts)).of(2, 10, 20_000)
    assert {*columns["class"].tolist()} == {7}
    assert columns["shard"][:4].tolist() == [2, 3, 1, 2]
    assert {*columns["region"].tolist()} == {1, 2, 3, 4}
    tenants = Counter(columns["tenant"].tolist())
    assert tenants[1] / tenants[2] == pytest.approx(2, rel=0.15)
    assert tenants[1] / 20_000 == pytest.approx(1 / sum(1 / n for n in range(1, 101)), rel=0.05)


def test_texts_and_headers_have_their_shares() -> None:
    texts = {"colour": "70% red + 30% blue", "fixed": "eu", "shade": "zipf dark|light", "serial": "0 to 2147483647"}
    columns = PropertyColumns(point(properties=texts)).of(2, 0, 20_000)
    assert np.count_nonzero(columns["colour"] == "red") / 20_000 == pytest.approx(0.7, rel=0.03)
    assert {*columns["fixed"].tolist()} == {"eu"}
    assert np.count_nonzero(columns["shade"] == "dark") / 20_000 == pytest.approx(2 / 3, rel=0.03)
    assert len({*columns["serial"].tolist()}) > 19_000
    headers = HeaderColumns(point(priority="90% 4 + 10% 9", expires=600.0, key="zipf 100", seed=0)).of(2, 0, 20_000)
    assert headers.priority is not None
    assert headers.key is not None
    assert Counter(headers.priority.tolist()).keys() == {4, 9}
    assert headers.priority.tolist().count(9) / 20_000 == pytest.approx(0.1, rel=0.1)
    assert headers.expires_s == 600.0
    keys = Counter(headers.key.tolist())
    assert keys["1"] / keys["2"] == pytest.approx(2, rel=0.15)
    part = headers.rows(5, 7)
    assert part.priority is not None
    assert part.key is not None
    assert (part.priority.tolist(), part.expires_s, part.key.tolist()) == (
        headers.priority[5:7].tolist(), 600.0, headers.key[5:7].tolist(),
    )  # fmt: skip


def test_a_run_with_headers_is_exact(tmp_path: Path) -> None:
    varied = point(
        sizes=MIX, messages=300, producers=2, priority="4", expires=600.0, key="zipf 10",
        properties={"colour": "70% red + 30% blue"}, selector="colour IN ('red', 'blue')",
    )  # fmt: skip
    folder = conducted(tmp_path, [varied], agents=1)
    (run,) = rows(folder, "runs")
    assert (run["status"], run["reason"]) == ("complete", "")
    Recount.of(folder, run["run"]).check_counts(run)


def test_a_run_with_varied_bodies_is_exact(tmp_path: Path) -> None:
    """The bytes of sends and receipts are those of the plan, and no body is damaged."""
    varied = point(sizes=MIX, messages=300, producers=2, properties={"tenant": "zipf 10"}, selector="tenant < 11")
    folder = conducted(tmp_path, [varied], agents=1)
    (run,) = rows(folder, "runs")
    assert (run["status"], run["reason"]) == ("complete", "")
    Recount.of(folder, run["run"]).check_counts(run)
    expected = sum(len(body) for producer in (0, 1) for body in made(varied, 150, producer))
    for table in ("sends", "receipts"):
        assert sum(row["bytes"] for row in rows(folder, table)) == expected
    assert not any(row["damaged"] for row in rows(folder, "receipts"))
