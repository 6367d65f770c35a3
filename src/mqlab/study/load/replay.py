"""A study with the load of an activity trace of the embedded broker: its rate over time, its sizes and its roles."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mqlab.errors import MqlabError
from mqlab.study.language.units import format_size
from mqlab.study.language.value_types import MAX_ROLES
from mqlab.study.load.sizes import LARGEST_BODY, SMALLEST_REPLY

_COLUMNS: Final = ("connection", "operation", "t", "destination", "messages", "bytes", "code", "detail")
_OWN: Final = "mqlab."
_SECOND_NS: Final = 10**9
# So many different sizes are a mix of their own; more are grouped at these shares of the messages.
_MOST_SIZES: Final = 5
_GROUPS: Final = (0.5, 0.9, 0.99, 1.0)
# Names of destinations in a comment; and shares, which a value of a study has room for.
_MOST_NAMES: Final = 10
_MOST_SHARES: Final = 150
# The quick scale replays so many seconds.
_QUICK_SECONDS: Final = 10


class UnusableTraceError(MqlabError):
    """The file is not a trace, or nothing was sent while it was recorded."""


@dataclass(frozen=True)
class ReplayStudy:
    """The text of a study, and the files beside it, by name."""

    text: str
    files: dict[str, str]


def read_trace(paths: Sequence[Path]) -> pa.Table:
    """The records of trace files of one broker. Raises UnusableTraceError."""
    tables = []
    for path in paths:
        try:
            tables.append(pq.read_table(path, columns=[*_COLUMNS]))
        except (OSError, pa.ArrowException) as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise UnusableTraceError(f"{path} is not an activity trace (mqlab broker trace FILE): {reason}") from None
        if tables[-1].column_names != [*_COLUMNS]:
            raise UnusableTraceError(f"{path} is not an activity trace: it lacks columns of mqlab broker trace FILE")
    return pa.concat_tables(tables)


def replay_study(trace: pa.Table, study_id: str) -> ReplayStudy:
    """Raises UnusableTraceError."""
    # From queue:orders, `queue`.
    parts = pc.split_pattern(trace["destination"], ":", max_splits=1)
    kinds = pc.list_element(parts, 0)
    is_own = pc.match_substring(trace["destination"], f":{_OWN}")
    scenarios, files, longest = [], {}, 1
    for kind in ("queue", "topic"):
        records = trace.filter(pc.and_(pc.equal(kinds, kind), pc.invert(is_own)))
        puts = records.filter(pc.and_(pc.equal(records["operation"], "put"), pc.equal(records["code"], "ok")))
        puts = puts.filter(pc.greater(puts["messages"], 0))
        if not puts.num_rows:
            continue
        counts = _counts(puts)
        name = f"{study_id}-{kind}s.txt"
        files[name] = "# messages sent in each second of the trace\n" + "".join(f"{count}\n" for count in counts)
        scenarios.append(_scenario(kind, puts, records, name))
        longest = max(longest, len(counts))
    if not scenarios:
        raise UnusableTraceError("the trace has no messages that were sent: it has no successful put")
    head = [
        f"study: {study_id}",
        f"title: The load of {study_id}",
        "# Recorded by the broker (mqlab broker trace FILE); written by mqlab init --from-trace.",
        "# A recorded size includes the headers of the message. Add what a trace does not tell, such as",
        "# send: confirmed or session: {transaction: 10}.",
        f"defaults: {{phases: {{warmup: 0s, measure: {longest}s}}, repeat: {{until: none, most: 1}}}}",
        f"scales: {{quick: {{phases: {{warmup: 0s, measure: {min(longest, _QUICK_SECONDS)}s}}}}}}",
        "scenarios:",
    ]
    return ReplayStudy("\n".join([*head, *scenarios]) + "\n", files)


def _scenario(kind: str, puts: pa.Table, records: pa.Table, counts_file: str) -> str:
    gets = records.filter(pc.is_in(records["operation"], pa.array(["get", "get-by-id"])))
    sent: Counter[str] = Counter()
    for destination, messages in zip(puts["destination"].to_pylist(), puts["messages"].to_pylist(), strict=True):
        sent[destination] += messages
    names = ", ".join(name for name, _ in sent.most_common(_MOST_NAMES)) + (", ..." if len(sent) > _MOST_NAMES else "")
    producers = min(MAX_ROLES, max(len(sent), _links(puts)))
    consumers = min(MAX_ROLES, max(len(sent), _links(gets)))
    persistent = _persistent(puts)
    comment = "" if persistent is not None else "  # the trace does not tell: its level was low"
    return "\n".join([
        f"  {kind}s:",
        f"    # In the trace, the most used first: {json.dumps(names, ensure_ascii=True)}",
        f"    {kind}s: {len(sent)}",
        *_shares(sent),
        f"    producers: {producers}",
        f"    consumers: {consumers}",
        "    message:",
        f"      size: {_sizes(puts)}",
        f"      persistent: {'yes' if persistent else 'no'}{comment}",
        f"    rate: counts in {counts_file}",
    ])  # fmt: skip


def _shares(sent: Counter[str]) -> list[str]:
    """The shares of the destinations, the most used first."""
    if len(sent) == 1:
        return []
    if len(sent) > _MOST_SHARES:
        return ["    # So many destinations are used alike here, as the trace does not."]
    return [
        f"    shares: {' + '.join(f'{share}%' for share in _percentages(count for _, count in sent.most_common()))}"
    ]


def _percentages(counts: Iterable[int]) -> list[str]:
    """Shares of hundredths of a percent that make 100 %: the greatest one gets what rounding leaves."""
    counts = [*counts]
    parts = [max(1, math.floor(10_000 * count / sum(counts))) for count in counts]
    parts[parts.index(max(parts))] += 10_000 - sum(parts)
    return [f"{share / 100:g}" for share in parts]


def _counts(puts: pa.Table) -> list[int]:
    """The messages of each second, from the first one on."""
    times, messages = puts["t"].to_numpy(), puts["messages"].to_pylist()
    counts: Counter[int] = Counter()
    for second, count in zip(((times - times.min()) // _SECOND_NS).tolist(), messages, strict=True):
        counts[second] += count
    return [counts[second] for second in range(max(counts) + 1)]


def _links(operations: pa.Table) -> int:
    """The connections that used a destination, for all destinations."""
    return int(operations.group_by(["connection", "destination"]).aggregate([]).num_rows)


def _persistent(puts: pa.Table) -> bool | None:
    """Whether most puts were persistent; None if the trace has no details."""
    flags = [json.loads(detail).get("persistent") for detail in puts["detail"].to_pylist() if detail]
    return sum(map(bool, flags)) * 2 > len(flags) if flags else None


def _sizes(puts: pa.Table) -> str:
    """The sizes of the messages as a study writes them."""
    weights: Counter[int] = Counter()
    for size, messages in zip(puts["bytes"].to_pylist(), puts["messages"].to_pylist(), strict=True):
        weights[min(max(round(size / messages), SMALLEST_REPLY), LARGEST_BODY)] += messages
    groups = weights if len(weights) <= _MOST_SIZES else _grouped(weights)
    if len(groups) == 1:
        return format_size(*groups)
    ordered = sorted(groups.items())
    shares = _percentages(count for _, count in ordered)
    return " + ".join(f"{share}% {format_size(size)}" for share, (size, _) in zip(shares, ordered, strict=True))


def _grouped(weights: Counter[int]) -> Counter[int]:
    """The mean sizes of the smaller half of the messages, of those up to 90 %, up to 99 %, and of the largest."""
    groups: list[Counter[int]] = [Counter() for _ in _GROUPS]
    before = 0
    for size, count in sorted(weights.items()):
        place = next(number for number, share in enumerate(_GROUPS) if before < share * weights.total())
        groups[place][size] += count
        before += count
    means: Counter[int] = Counter()
    for group in filter(None, groups):
        means[round(sum(size * count for size, count in group.items()) / group.total())] += group.total()
    return means
