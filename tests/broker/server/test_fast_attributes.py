"""Objects that every message passes have no more attributes than CPython finds quickly."""

from pathlib import Path

from broker.server.raw_client import in_loop, local
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.inprocess.connection import InProcessConnection
from mqlab.broker.server.native.connection import NativeServerConnection

# CPython 3.11 shares the keys of so many attributes among the objects of a class. With more, each lookup of an
# attribute or a method is slower: a message costs some percent more.
SHARED_KEYS = 30


@in_loop
async def test_objects_on_the_path_of_a_message_have_few_attributes_outside_of_slots(tmp_path: Path) -> None:
    broker = Broker(local(data=tmp_path / "data"))
    try:
        core, journal = broker.core, broker._journal
        assert journal is not None
        connections = NativeServerConnection(broker), InProcessConnection(broker)
        passed = (
            broker,
            core,
            core.flow,
            core.records,
            core.removal,
            core.destinations,
            core.destinations.queue("q"),
            journal,
        )
        for each in (*passed, *connections, connections[0]._receiver):
            assert len(getattr(each, "__dict__", ())) <= SHARED_KEYS, type(each).__name__
    finally:
        await broker.close()
