"""A core as the journal left it: nothing is appended while the journal has not begun."""

from broker.core.commands import NOW, Driven
from broker.core.payloads import single
from broker.core.reference_recovery import Replayed
from mqlab.broker.core.broker import Core
from mqlab.broker.core.durability.records import Commit, Remove
from mqlab.broker.core.effects import Append
from mqlab.broker.settings import Settings


def left_behind(**settings: object) -> tuple[Replayed, Settings]:
    """A message that expires at NOW + 10, and one that does not."""
    driven = Driven(stored=True, **settings)
    producer = driven.producer("queue:q")
    driven.put(producer, single(b"short", expiration=NOW + 10), persistent=True)
    driven.put(producer, single(b"long"), persistent=True)
    driven.sync()
    return Replayed(driven.records), driven.core.settings


def restored(found: Replayed, settings: Settings, now: int) -> Core:
    core = Core(settings)
    core.context.now_ms = now
    found.restore(core)
    return core


def test_what_expired_meanwhile_leaves_with_the_first_wake_and_its_record_follows_the_last_one() -> None:
    found, settings = left_behind()
    core = restored(found, settings, NOW + 1000)
    assert core.effects == []
    assert core.wake_times[0][0] <= NOW + 1000
    core.tick(NOW + 1000)
    (appended,) = [effect for effect in core.effects if isinstance(effect, Append)]
    assert (appended.lsn, type(appended.record)) == (found.lsn + 1, Remove)
    assert core.destinations.queues["q"].messages == 1


def test_it_goes_to_the_queue_for_it_which_is_made_after_all_others() -> None:
    found, settings = left_behind(expired="queue:late")
    core = restored(found, settings, NOW + 1000)
    core.tick(NOW + 1000)
    declared, moved = [effect for effect in core.effects if isinstance(effect, Append)]
    assert core.destinations.queues["late"].number == found.last_queue + 1
    assert (declared.lsn, moved.lsn) == (found.lsn + 1, found.lsn + 2)
    assert isinstance(moved.record, Commit)
