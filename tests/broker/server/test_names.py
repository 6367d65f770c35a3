"""Names of destinations, as they come over the wire: none leaves the data folder, none breaks anything."""

from pathlib import Path

import pytest

from mqlab.broker.server.startup import running
from mqlab.wire.native import frames as native
from mqlab.wire.native.frames import Flag, Kind

from .raw_client import Raw, in_loop, local

ODD = [
    "../../escape", "/etc/passwd", "a" * 255, "ä" * 127, "CON", "a\\b", "~root", "%00", "queue:nested", ".", "orders",
    "\u043erders",  # begins with a letter that only looks like an o
]  # fmt: skip
BAD = ["", " ", "a\x00b", "a\nb", "a" * 256, "ä" * 128, "\ud800", "\u202e"]


@in_loop
async def test_odd_names_are_names_and_stay_inside(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with running(local(data=data)) as (broker, (address,)):
        raw = await Raw.connect(address)
        await raw.open_session()
        for link, name in enumerate(ODD, 1):
            await raw.open_producer(f"queue:{name}", link=link)
            raw.send(name.encode(), link=link, flags=Flag.PERSISTENT | Flag.CONFIRM)
            await raw.read_until(Kind.CONFIRM)
        assert set(broker.core.destinations.queues) == set(ODD)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert {path.name for path in data.iterdir()} == {"lock", "journal-0000000001", "manifest", "pages"}
    # And they are the same names after a restart.
    async with running(local(data=data)) as (broker, _):
        assert set(broker.core.destinations.queues) == set(ODD)
        assert all(queue.messages == 1 for queue in broker.core.destinations.queues.values())


@pytest.mark.parametrize("kind", [Kind.OPEN_PRODUCER, Kind.OPEN_CONSUMER])
@pytest.mark.parametrize("name", [*BAD, None])
@in_loop
async def test_bad_names_are_refused_and_the_session_goes_on(name: str | None, kind: Kind) -> None:
    async with running(local()) as (broker, (address,)):
        raw = await Raw.connect(address)
        await raw.open_session()
        destination = "no-kind" if name is None else f"queue:{name}"
        raw.write(native.frame(kind, {"destination": destination}, session=1, link=1, amount=1))
        answer = await raw.read()
        assert (answer.kind, answer.session, answer.link) == (Kind.ERROR, 1, 1)
        assert answer.json()["code"] == "refused"
        await raw.open_producer("queue:good")
        assert set(broker.core.destinations.queues) == {"good"}
