"""One simulation of two brokers: what they are like, what goes wrong, and what must be true at the end."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

from mqlab.broker.channel_settings import ChannelSettings
from mqlab.broker.policy import Policies, Policy, PolicyRule
from mqlab.broker.settings import Settings
from simulation.books import Fault
from simulation.clock import STEPS_MS

from .books import Books, settled
from .broker_log import heard
from .clients import Application, Consumer, Producer
from .final_checks import at_rest, status_is_sound
from .loop import Loop
from .network import Network, Route
from .site import Site
from .stand_ins import in_place
from .timeline import Timeline

_NAMES = "AB"
# Queues at each broker; one is full after a few messages, so that the channel to it is blocked at times.
_QUEUES = ("orders", "small", "third")
_SMALL = PolicyRule("queue:small", {"queue_limit": 2500})
_SAVED = PolicyRule("queue:transmit.*", {"save_extent": 1500})
# Memory limit, rules, and the batch of the channel. Where there is little memory, it is full of messages for the other
# broker at times, in memory or on disk.
_MUCH, _LITTLE = 1_000_000, 40_000
_KINDS = (
    (_MUCH, (_SMALL,), 3), (_MUCH, (_SMALL,), 20), (_MUCH, (_SMALL,), 1000), (_LITTLE, (_SMALL, _SAVED), 3),
    (_LITTLE, (_SMALL,), 3), (_LITTLE, (_SMALL,), 1000),
)  # fmt: skip
_LITTLE_MEMORY = _KINDS[-2:]
# Seconds without a fault after which nothing may be under way any more.
_PATIENCE = 600.0
_STEPS_BETWEEN_LOOKS = 20


class Simulation:
    """`folder` is for its files, and empty. `full`: both fill up with messages for the other at first."""

    def __init__(self, seed: int, folder: Path, seconds: float = 12.0, *, full: bool = False) -> None:
        self.chance = random.Random(seed)
        self.timeline = Timeline(self.chance)
        self.network = Network(self.timeline)
        self.books = Books()
        self._folder = folder
        self._seconds = seconds
        self._observed = seed % 2 == 1
        self._kinds = _LITTLE_MEMORY if full else _KINDS
        self.sites = {name: self._site(name) for name in _NAMES}
        for name in _NAMES:
            address = str(folder / name)
            self.network.routes[address] = Route(address, 0.0001, 0.001)
            link = self.network.routes[self._link(name)] = Route(
                address, *self.chance.choice(((0.0005,), (0.0005,), (0.001, 0.1)))
            )
            link.on_parcel = self._parcel
            if full:
                link.closed = True
                self.timeline.after(seconds / 2, partial(self._open, link))
        # It has those methods of a loop that broker and client call.
        self._loop = Loop(self.timeline, self.network, lambda: None)  # type: ignore[abstract]
        self.applications = self._applications()
        # How often something goes wrong: in some worlds only links do, or only brokers.
        self._faults = {
            self._cut: self.chance.choice((0.3, 2.0, 6.0)), self._close_link: self.chance.choice((0.0, 0.2)),
            self._cut_off_client: 0.5, self._crash: self.chance.choice((0.0, 0.5, 3.0)),
            self._restart_channel: self.chance.choice((0.0, 0.2)), self._set_clock: self.chance.choice((0.0, 0.3)),
        }  # fmt: skip
        # A fault waits for so many more parcels to go through a link: most are to fall into a transfer.
        self._parcels = 0
        self._kind = False

    def run(self) -> dict[str, int]:
        """What happened, in numbers. Raises Fault."""
        with in_place(self.timeline), heard(self.timeline, self.books):
            try:
                self._run()
            finally:
                for site in self.sites.values():
                    site.end()
                self._loop.die()
            self._check_complaints()
        for site in self.sites.values():
            for what, number in site.counts.items():
                self.books.count(what, number)
        return self.books.counts

    def _run(self) -> None:
        for site in self.sites.values():
            site.start()
        for application in self.applications:
            application.task = self._loop.create_task(application.run())
        self._arrange_fault()
        self._until(lambda: self.timeline.now > self._seconds, 10 * self._seconds)
        self._end()

    # Who takes part

    def _link(self, to: str) -> str:
        """The address by which the channel reaches a broker."""
        return str(self._folder / f"link to {to}")

    def _site(self, name: str) -> Site:
        other, chance, folder = _other(name), self.chance, self._folder
        memory, rules, batch = chance.choice(self._kinds)
        window = 1500 if memory == _LITTLE else chance.choice((1500, 100_000))
        channel = ChannelSettings(other, f"unix:{self._link(other)}", batch=batch, retry=1)
        made = Settings(
            name=name, data=folder / f"journal {name}", listen=(f"unix:{folder / name}",), channels=(channel,),
            remotes=(("there", f"queue:third@{other}"),), producer_window=window,
            memory_limit=memory, policy=Policy(redelivery_limit=0),
            policies=Policies(rules), group_delay=chance.choice((0, 0, 200)),
            # Every second seed is observed in all ways that touch no file.
            trace="high" if self._observed else "off", monitoring="high" if self._observed else "low",
        )  # fmt: skip
        segment_size = chance.choice((1500, 4000, 20_000))
        object.__setattr__(made, "segment_size", segment_size)
        object.__setattr__(made, "log_length", segment_size * chance.choice((1, 4)))
        return Site(made, self.timeline, self.network, self.books.lives)

    def _applications(self) -> list[Application]:
        made: list[Application] = []
        for name in _NAMES:
            here, there = f"unix:{self._folder / name}", f"unix:{self._folder / _other(name)}"
            for queue in _QUEUES:
                target = f"queue:{queue}@{_other(name)}"
                destination = "queue:there" if queue == "third" else target
                for number in range(self.chance.choice((1, 2))):
                    about = f"producer {number} of {queue} at {name}"
                    made.append(Producer(about, here, self.timeline, self.books, destination, target))
                made.append(Consumer(f"consumer of {target}", there, self.timeline, self.books, target))
        return made

    # What goes wrong

    def _arrange_fault(self) -> None:
        often = sum(self._faults.values())
        self.timeline.after(self.chance.expovariate(often), self._fault)

    def _fault(self) -> None:
        if not self._kind:
            if self.chance.random() < 0.7:
                self._parcels = self.chance.choice((2, 10, 40)) + self.chance.randrange(3)
            else:
                self._go_wrong()
            self._arrange_fault()

    def _parcel(self) -> None:
        """Something goes through a link."""
        if self._parcels:
            self._parcels -= 1
            if not self._parcels:
                self.timeline.after(self.timeline.some(0.00001, 0.001, 0.01), self._go_wrong)

    def _go_wrong(self) -> None:
        if not self._kind:
            self.chance.choices([*self._faults], [*self._faults.values()])[0]()

    def _cut(self) -> None:
        route = self.network.routes[self._link(self.chance.choice(_NAMES))]
        for connection in route.connections:
            self.timeline.tell("a link is cut")
            self.books.count("cuts")
            self.network.cut(connection, 0.0001, 0.001, 0.1, 40.0)
        route.connections.clear()

    def _close_link(self) -> None:
        """Cut, and not to be had for a while."""
        self._cut()
        route = self.network.routes[self._link(self.chance.choice(_NAMES))]
        route.closed = True
        route.silent = self.chance.random() < 0.3
        self.timeline.after(self.timeline.some(0.3, 3.0, 15.0), lambda: self._open(route))

    def _open(self, route: Route) -> None:
        route.closed = route.silent = False

    def _cut_off_client(self) -> None:
        route = self.network.routes[str(self._folder / self.chance.choice(_NAMES))]
        if route.connections:
            connection = route.connections.pop(self.chance.randrange(len(route.connections)))
            self.books.count("deaths")
            self.network.cut(connection, 0.0001, 0.001)

    def _crash(self) -> None:
        """Of one broker, or both."""
        for name in self.chance.choice(("A", "B", "A", "B", "AB")):
            self._crash_at(self.sites[name])

    def _crash_at(self, site: Site) -> None:
        if site.broker is not None:
            files = site.files
            what: Callable[[], object] = self.chance.choices(
                (site.kill, site.crash_soon, files.fail_a_sync_soon, files.fail_an_append_soon, site.stop),
                (2, 2, 0.5, 0.3, 0.7),
            )[0]  # fmt: skip
            what()

    def _set_clock(self) -> None:
        self.books.count("clock")
        self.timeline.clock.set_by(self.chance.choice(STEPS_MS))

    def _restart_channel(self) -> None:
        site = self.sites[self.chance.choice(_NAMES)]
        if site.broker is not None:
            self.books.count("restarted channels")
            site.restart_channel(self.timeline.some(0.001, 1.0))

    # The end

    def _until(self, condition: Callable[[], bool], seconds: float) -> None:
        """Raises Fault if it does not come true in so long."""
        deadline = self.timeline.now + seconds
        while not condition():
            for _ in range(_STEPS_BETWEEN_LOOKS):
                self.timeline.step()
            for application in self.applications:
                if application.task is not None and application.task.done():
                    application.task.result()
            self._check_complaints()
            if self.timeline.now > deadline:
                raise Fault(f"nothing moves any more: {[at_rest(site) for site in self.sites.values()]}")

    def _check_complaints(self) -> None:
        complaints = [*self._loop.complaints, *(one for site in self.sites.values() for one in site.complaints)]
        brokers = [site.broker for site in self.sites.values() if site.broker is not None]
        complaints += [f"{broker.observer_errors.count} errors of traces" for broker in brokers
                       if broker.observer_errors.count]  # fmt: skip
        if complaints:
            raise Fault(f"nobody thought of this: {complaints}")

    def _end(self) -> None:
        """No more faults: everything arrives, and then nothing is left."""
        self._kind = True
        for site in self.sites.values():
            site.be_kind()
        for route in self.network.routes.values():
            self._open(route)
        self._stop(Producer)
        self._until(lambda: not any(at_rest(site) for site in self.sites.values()), _PATIENCE)
        self._stop(Consumer)
        settled(self.books)
        for site in self.sites.values():
            status_is_sound(site, self.books)

    def _stop(self, kind: type[Application]) -> None:
        stopping = [one for one in self.applications if isinstance(one, kind)]
        for application in stopping:
            application.stopping = True
        self._until(lambda: all(one.task is not None and one.task.done() for one in stopping), _PATIENCE)


def _other(name: str) -> str:
    return "B" if name == "A" else "A"
