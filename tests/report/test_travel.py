"""How messages travelled stands beside every figure, and packed never beside message by message without both words."""

import re
from io import StringIO

from rich.console import Console

from mqlab.report.claims.tables import figures_table
from mqlab.report.claims.verdicts import NOT_TESTABLE, judge
from mqlab.report.data.run_results import RunResults
from mqlab.report.data.travel import ways_of_travel
from mqlab.report.exhibits.answer import answer
from mqlab.report.exhibits.cells import flag_notes, system_cell, travel_notes
from mqlab.report.exhibits.headline import rate_tiles
from mqlab.report.exhibits.lab_tables import points_table
from mqlab.report.exhibits.matrix import matrix
from mqlab.report.exhibits.table import table
from mqlab.report.render.content import PUBLISHED, Table
from mqlab.report.render.json_document import as_json
from mqlab.report.render.terminal import print_summary
from mqlab.study.exhibit import Exhibit, MetricView

from .conftest import Write
from .synthetic_runs import SyntheticRuns

PACKED = "embedded:packed=4096"


def travel(made: SyntheticRuns, scenario: str, records: float, waits: float, system: str = "embedded") -> None:
    made.measure(scenario, "message.records", records, system=system)
    made.measure(scenario, "message.waits", waits, system=system)


def both(made: SyntheticRuns) -> None:
    """The same study message by message, and packed."""
    made.meta["systems"].append({"name": PACKED, "version": "0.1.0", "settings": {}, "stamps": []})
    for row in [*made.rows["measures"]]:
        if row["metric"] == "rate.received":
            made.measure(row["scenario"], "rate.received", 10 * row["value"], 1.0, system=PACKED)
            travel(made, row["scenario"], 4096, 0, PACKED)
            travel(made, row["scenario"], 1, 0)


def test_each_point_says_how_its_messages_travelled(made: SyntheticRuns, write: Write) -> None:
    travel(made, "A", 1, 0)
    travel(made, "G", 1, 1)
    results = RunResults.of(write(made))
    table = points_table(results)
    ways = {row.cells[0].text: row.cells[table.head.index("Messages travelled")].text for row in table.rows}
    assert (ways["A"], ways["G"], ways["B"]) == ("message by message", "confirmed one by one", "n/a")
    note = "Messages travelled message by message: A; confirmed one by one: G."
    assert note in flag_notes(results, results.points)
    assert note in table.notes
    assert results.stamps_of("embedded") == ()


def test_systems_are_named_only_where_their_messages_travelled_otherwise(made: SyntheticRuns, write: Write) -> None:
    both(made)
    for scenario, packed_waits in (("A", 0), ("G", 1)):
        travel(made, scenario, 1, packed_waits, PACKED)
        travel(made, scenario, 1, 0)
    results = RunResults.of(write(made))
    (note,) = travel_notes(results, [point for point in results.points if point.scenario in "AG"])
    assert note == f"Messages travelled message by message: A and embedded in G; confirmed one by one: {PACKED} in G."


def test_every_line_with_a_packed_system_has_the_word_and_so_has_the_other(made: SyntheticRuns, write: Write) -> None:
    both(made)
    folder = write(made)
    results = RunResults.of(folder)
    assert results.stamps_of("embedded") == ("message by message",)
    assert results.stamps_of(PACKED) == ("packed",)
    assert results.names() == ["embedded [message by message]", f"{PACKED} [packed]"]
    tiles = [tile.note for tile in rate_tiles(results)]
    assert [("message by message" in note, "packed, 4,096 records a message" in note) for note in tiles] == [
        (True, False), (False, True),
    ]  # fmt: skip


def test_packed_is_not_compared_with_message_by_message(made: SyntheticRuns, write: Write) -> None:
    both(made)
    made.comparison("A", "", "embedded", PACKED, "rate.received", 0.1)
    results = RunResults.of(write(made))
    exhibit = Exhibit("table", "Ratios", of=("A",), by=("scenario",), views=(MetricView("ratio", "rate.received"),))
    (shown,) = table(results, exhibit, "")
    assert isinstance(shown, Table)
    notes = [cell.note for row in shown.rows for cell in row.cells]
    assert "packed is not compared with message by message" in notes
    blocks = matrix(results, Exhibit("matrix", "All", value="rate.received"), "")
    titles = [block.title for block in blocks if isinstance(block, Table)]
    assert not [title for title in titles if "multiple of the published" in title and PACKED in title]
    assert [title for title in titles if "multiple of the published" in title and title.startswith("embedded [")]
    assert as_json(results.folder)["comparisons"][0]["travel"] == ["message by message", "packed"]


def test_a_claim_over_points_of_different_ways_says_both(made: SyntheticRuns, write: Write) -> None:
    """In the words, and beside the figures behind them."""
    for scenario, waits in (("A", 0), ("G", 1), ("H", 0)):
        travel(made, scenario, 1, waits)
    results = RunResults.of(write(made))
    found = {verdict.claim: verdict for verdict in judge(results) if verdict.basis == "measured"}
    said = "messages travelled message by message: H; confirmed one by one: G"
    assert found["transactions-raise"].words.endswith(said)
    assert found["transactions-raise"].figures.endswith(said)
    assert "travelled" not in found["small-fan-out"].words
    figures = {row.cells[0].text: row.cells[3].text for row in figures_table(results, [*found.values()]).rows}
    assert figures["transactions-raise"].endswith(said)


def test_a_parameter_tells_the_ways_of_a_scenario_apart(made: SyntheticRuns, write: Write) -> None:
    results = RunResults.of(write(made))
    point = results.points[0]
    points = [
        point.model_copy(update={"name": size + how, "parameters": {"size": size, "persistent": how}})
        for size in ("1KB", "100B")
        for how in ("yes", "no")
    ]
    for point in points:
        for metric, value in (("records", 1.0), ("waits", float(point.parameters["persistent"] == "yes"))):
            made.measure(point.scenario, f"message.{metric}", value, point=point.name)
    ways = ways_of_travel(RunResults.of(write(made)), [("embedded", point) for point in points])
    assert ways == {"confirmed one by one": ["A (persistent=yes)"], "message by message": ["A (persistent=no)"]}


def test_no_claim_compares_packed_with_message_by_message(made: SyntheticRuns, write: Write) -> None:
    both(made)
    verdicts = [verdict for verdict in judge(RunResults.of(write(made))) if verdict.basis == "measured"]
    (spread,) = [verdict for verdict in verdicts if verdict.claim == "small-wide-range"]
    assert (spread.verdict, spread.words) == (NOT_TESTABLE, "")
    assert spread.reason == "packed is not compared with message by message"
    raised = {v.subject: v.verdict for v in verdicts if v.claim == "transactions-raise"}
    assert NOT_TESTABLE not in raised.values(), "each system by itself is compared with nothing"


def test_published_figures_have_the_word_beside_packed_ones(made: SyntheticRuns, write: Write) -> None:
    assert system_cell(RunResults.of(write(made)), "HornetQ 2.1.1", PUBLISHED).stamps == ()
    both(made)
    assert system_cell(RunResults.of(write(made)), "HornetQ 2.1.1", PUBLISHED).stamps == ("message by message",)


def test_json_has_the_way_of_each_measure(made: SyntheticRuns, write: Write) -> None:
    both(made)
    document = as_json(write(made))
    ways = {(measure["system"], measure["scenario"]): measure["travel"] for measure in document["measures"]}
    assert ways["embedded", "A"] == "message by message"
    assert ways[PACKED, "A"] == "packed, 4,096 records a message"


def test_the_terminal_has_both_words_in_the_heads_of_its_columns(made: SyntheticRuns, write: Write) -> None:
    both(made)
    output = StringIO()
    print_summary(write(made), Console(file=output, width=250))
    assert re.search(r"\[message by message\] .*\[packed\]", output.getvalue())


def test_the_answer_does_not_rank_packed_figures_among_others(made: SyntheticRuns, write: Write) -> None:
    both(made)
    found = answer(RunResults.of(write(made)), [])
    assert found.startswith("The highest rate at the consumers of embedded [message by message] is ")
    assert "packed" not in found
