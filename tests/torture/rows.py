"""What the broker must survive, row by row: how each is run in its long form, and which figure must be reached."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mqlab.json_values import JsonObject

Figures = JsonObject


@dataclass(frozen=True)
class Row:
    name: str
    what: str
    # Tests to run (with MQLAB_TORTURE=1), or a script whose last line of output is JSON; both from the repository.
    tests: tuple[str, ...] = ()
    script: tuple[str, ...] = ()
    # The script's options where it is only to be seen that it starts.
    quick: tuple[str, ...] = ()
    # Figures that must be there, and reach this; and figures that must be 0.
    least: Mapping[str, float] = field(default_factory=dict)
    none: tuple[str, ...] = ()

    def shortfalls(self, figures: Figures) -> list[str]:
        """What is not as it must be."""
        found = [f"{name} {figures.get(name, 0)} < {number}" for name, number in self.least.items()
                 if figures.get(name, 0) < number]  # fmt: skip
        # A figure may be a group of others: `faults.lost`.
        wrong = [name for name, value in figures.items() if value and name.partition(".")[0] in self.none]
        return found + [f"{name} {figures[name]}" for name in wrong]


_STORE, _SERVER, _CORE = "tests/broker/store", "tests/broker/server", "tests/broker/core"

ROWS = (
    Row(
        "kill", "kill -9 of the broker under persistent load",
        script=("tests/crash/killing.py", "--kills", "1000", "--messages", "1000000"),
        quick=("--kills", "4", "--messages", "2000"),
        least={"kills": 1000, "confirmed": 1_000_000}, none=("faults",),
    ),
    Row(
        "channel", "links between two brokers are cut and both are killed, under persistent load",
        script=("tests/crash/linking.py", "--cuts", "200", "--kills", "20", "--messages", "100000"),
        quick=("--cuts", "4", "--kills", "1", "--messages", "1000"),
        least={"cuts": 200, "kills": 20, "confirmed": 100_000, "found_arrived": 1}, none=("faults",),
    ),
    Row("power", "power failure between any two calls of the file layer",
        tests=(f"{_STORE}/test_power_failure.py",), least={"points": 10_000}),
    Row("torn", "a journal that ends anywhere",
        tests=(f"{_STORE}/test_damage.py", "-k", "torn or tail"), least={"offsets": 65_000}),
    Row("flips", "flipped bits in the journal",
        tests=(f"{_STORE}/test_damage.py", "-k", "not torn and not tail"), least={"bits": 524_288}),
    Row("sync", "a sync or write that fails",
        tests=(f"{_STORE}/test_failing_disk.py",), least={"failed_syncs": 900, "failed_writes": 900}),
    Row("full", "a full disk, and no more descriptors",
        tests=(f"{_STORE}/test_full_disk.py", f"{_STORE}/test_refusal.py", f"{_SERVER}/test_file_limit.py"),
        least={"schedules": 200, "refused": 100}),
    Row("missing", "journal files that are gone, emptied, overwritten or another store's",
        tests=(f"{_STORE}/test_missing.py",)),
    Row(
        "confirmation", "every confirmation comes after its sync",
        script=("tests/torture/confirming.py", "--messages", "1000000"), quick=("--messages", "2000"),
        least={"confirmed": 1_000_000}, none=("before_their_sync", "not_in_the_journal"),
    ),
    Row("acknowledgement", "a death of client or broker at every moment of every way to acknowledge",
        tests=("tests/client/test_redelivery.py", "tests/client/test_repeated_crashes.py")),
    Row(
        "simulation", "core and store under seeded faults, every promise checked",
        script=("tests/simulation/simulate.py", "--seed", "0", "--seeds", "1000"), quick=("--seeds", "2"),
        least={"seeds": 1000}, none=("failed",),
    ),
    Row(
        "two-brokers", "two brokers with channels both ways under seeded faults, each message arrives once",
        script=("tests/simulation/simulate.py", "--channel", "--seed", "0", "--seeds", "1000"),
        quick=("--channel", "--seeds", "2"),
        least={"seeds": 1000, "cuts": 5000, "kills": 1000, "power failures": 1000}, none=("failed",),
    ),
    Row("model", "the core against a model, over random sequences of commands",
        tests=(f"{_CORE}/test_model.py",), least={"examples": 5000}),
    Row("backlog", "ten times as much as may be in memory",
        tests=("tests/features/test_backlog.py",), least={"messages": 1}),
    Row("stalled", "a consumer that takes nothing for ten minutes",
        tests=("tests/features/test_stalled.py",), least={"stalled_seconds": 600}),
    Row("recovery", "journals are read again fast enough",
        script=("bench/recovery.py",), quick=("--quick", "--rounds", "1"),
        least={"recovery_MB_per_second.mixed": 50}),
    Row("exposure", "who can reach the broker, and what he may do there",
        tests=(f"{_SERVER}/test_startup.py", f"{_SERVER}/http/test_metrics.py", f"{_SERVER}/test_login.py",
               "tests/broker/security")),
    Row("login", "nothing is done for who is not logged in",
        tests=(f"{_SERVER}/test_login.py", f"{_SERVER}/test_protocol.py", f"{_SERVER}/test_login_of_protocols.py",
               "-k", "hello or nothing or wrong or without or nobody")),
    Row("limits", "every limit, just below, at and above",
        tests=("tests/broker/test_limits.py", f"{_SERVER}/test_limits.py", f"{_CORE}/test_limits.py",
               f"{_CORE}/selectors/test_limits.py")),
    Row(
        "hostile", "hostile clients of every kind beside well-behaved ones, against a broker with little memory",
        script=("tests/torture/hostile.py", "--seconds", "3600", "--strict"), quick=("--seconds", "8"),
        least={"attacks": 10_000, "kinds": 37, "requests": 100_000, "confirmed": 50_000},
        none=("tracebacks", "lost", "duplicated", "trace_errors", "over_memory", "slow", "ended_late"),
    ),
    Row("input", "noise and frames that are nearly right, through every listener",
        tests=("tests/hostile/test_listener.py", f"{_SERVER}/test_noise.py"), least={"tries": 20_000}),
    Row("observers", "with and without traces clients get the same bytes, whatever they send",
        tests=(f"{_SERVER}/trace/test_isolation.py",), least={"sequences": 1000}),
    Row("accounts", "what one connection can make the broker hold",
        tests=(f"{_CORE}/test_accounts.py", f"{_SERVER}/test_slices.py", f"{_SERVER}/native/test_unfinished_frames.py",
               f"{_SERVER}/amqp/test_hostile.py", f"{_SERVER}/mqtt/test_hostile.py")),
    Row("turns", "hostile clients that try to keep the loop",
        tests=(f"{_SERVER}/test_turns.py",)),
    Row("malformed", "bytes that no client of ours would send",
        tests=("tests/wire", f"{_SERVER}/test_protocol.py", f"{_SERVER}/stomp/test_fuzz.py",
               f"{_SERVER}/amqp/test_fuzz.py", f"{_SERVER}/amqp/test_protocol.py", f"{_SERVER}/mqtt/test_hostile.py",
               f"{_CORE}/selectors/test_fuzz.py")),
    Row("names", "names that try to be paths",
        tests=(f"{_SERVER}/test_names.py", f"{_CORE}/model/test_destination_names.py")),
    Row("logs", "forged lines, and passwords in what is printed or written",
        tests=(f"{_SERVER}/test_logs.py", "tests/broker/security/test_users.py")),
    Row("selectors", "selectors made to take long, and thousands of generated ones",
        tests=(f"{_CORE}/selectors",)),
)  # fmt: skip
