"""How well waiting producers share a sync, and the proof that each confirmation comes after its sync.

G_at_250_syncs, H_at_250_syncs: messages/s with a disk that completes syncs at 250 marks a second, as the study's did.
G_over_one_producer: on the real disk, 40 waiting producers over one.
The proof: the file layer notes every append and sync with its times; the journal says at which byte each message lies;
the producers' events say when each was confirmed. No confirmation may come before the end of a sync that began after
the append.
"""

import struct
from bisect import bisect_left
from pathlib import Path

import pyarrow.parquet as pq

from _common import arguments, finish, interleaved, level, medians, ratio, say
from _lab import Lab, scenario
from mqlab.broker.core.durability.records import Commit, Put
from mqlab.broker.store.journal_format import UNWRITTEN
from mqlab.broker.store.recovery.decoding import decode, decode_file_header
from mqlab.study import Point
from mqlab.wire.native.bodies import Payload
from mqlab.wire.native.bodies import decode as decode_bodies

ROTATING = "embedded:disk_marks=250"


def put_ends(journal: Path) -> dict[tuple[int, int], int]:
    """(producer, sequence number) -> the byte where the record that holds it ends."""
    data = journal.read_bytes()
    ends: dict[tuple[int, int], int] = {}
    at = decode_file_header(data).size
    # After the last record comes space that the broker reserved and did not use.
    while at < len(data) and not data.startswith(UNWRITTEN, at):
        decoded = decode(data, at)
        at = decoded.end
        puts = decoded.record.puts if isinstance(decoded.record, Commit) else (decoded.record,)
        for put in puts:
            if isinstance(put, Put):
                for body in _bodies(put.payload):
                    producer, seq = struct.unpack_from("<IQ", body)
                    ends[producer, seq] = decoded.end
    return ends


def _bodies(payload: Payload) -> list[bytes]:
    return decode_bodies(payload).tolist()


class FileTrace:
    """When each byte of the journal file was durable."""

    def __init__(self, path: Path, journal: str) -> None:
        lines = [line.split() for line in path.read_text().splitlines()]
        calls = [(call, [int(number) for number in numbers]) for call, name, *numbers in lines if name == journal]
        self.appends = [(offset + size, end) for call, (_, end, offset, size) in calls if call == "append"]
        self.syncs = sorted((begin, end, covered) for call, (begin, end, _, covered) in calls if call == "sync")

    def durable_at(self, byte: int) -> int:
        """The end of the first sync that began after this byte was appended."""
        appended = self.appends[bisect_left(self.appends, (byte, 0))][1]
        for begin, end, covered in self.syncs[bisect_left(self.syncs, (appended, 0, 0)) :]:
            if begin >= appended and covered >= byte:
                return end
        raise SystemExit(f"byte {byte} was never synced")


def proof(lab: Lab, point: Point, on: str, trace: Path, folder: str) -> dict[str, int]:
    """How many confirmations there were, and how many came too early."""
    _, run = lab.run(point, on)
    (journal,) = (lab.folder.path.parent / folder).glob("journal-*")
    ends, traced = put_ends(journal), FileTrace(trace, journal.name)
    checked = early = 0
    for file in (lab.folder.events / "sends").glob(f"run-{run:05d}-*.parquet"):
        for row in pq.read_table(file).to_pylist():
            checked += row["count"]
            last = row["first_seq"] + row["count"] - 1
            early += row["t_confirmed"] < traced.durable_at(ends[row["producer"], last])
    say(f"{point.scenario} on {on}: {checked} confirmed messages, {early} confirmed before their sync")
    return {"confirmed": checked, "before_their_sync": early}


def main() -> None:
    chosen = arguments(__doc__ or "")
    seconds = 0.1 if chosen.smoke else 1.0 if chosen.quick else 3.0
    many, transacted = scenario("G", measure=seconds), scenario("H", measure=seconds)
    one = scenario("G", measure=seconds, destinations=1, producers=1, consumers=1)
    proofs = {}
    with Lab() as lab:
        # Short enough for one journal file: the proof needs all of it.
        short = {name: scenario(name, measure=0.4, warmup=0.1) for name in "GH"}
        for number, (name, point) in enumerate(short.items()):
            for extra in ("", "disk_marks=250,"):
                trace = lab.folder.path / f"trace-{name}{extra[:4]}"
                on = f"embedded:{extra}file_trace={trace}"
                # Every traced system is new, so that its journal holds this run alone.
                proofs[f"{name}{' rotating disk' if extra else ''}"] = proof(
                    lab, point, on, trace, f"system-{2 * number + bool(extra)}"
                )
        found = interleaved(
            {
                "G_at_250_syncs": lambda: lab.rate(many, ROTATING),
                "H_at_250_syncs": lambda: lab.rate(transacted, ROTATING),
                "G": lambda: lab.rate(many),
                "one_producer": lambda: lab.rate(one),
            },
            chosen.rounds or (4 if chosen.quick else 7),
        )
    finish(
        G_at_250_syncs=level(found["G_at_250_syncs"]),
        H_at_250_syncs=level(found["H_at_250_syncs"]),
        G_over_one_producer=ratio(found["G"], found["one_producer"]),
        proof=proofs,
        messages_per_second=medians(found),
    )


if __name__ == "__main__":
    main()
