"""A short page of runs, for a pull request: the answer, goals and gates, and the main figure of every point."""

from collections.abc import Sequence

from mqlab.report.claims.gates import GateVerdict
from mqlab.report.claims.tables import gate_table
from mqlab.report.claims.verdicts import judge
from mqlab.report.data.run_results import RunResults, stamped
from mqlab.report.exhibits.answer import answer
from mqlab.report.exhibits.cells import measured
from mqlab.report.exhibits.headline import audit_tile, headline, rate_tiles, verdict_tile, warnings
from mqlab.report.render import formatting
from mqlab.report.render.content import Cell, Page, Section, Tab, Table, row


def summary_page(results: RunResults, verdicts: Sequence[GateVerdict]) -> Page:
    claims = judge(results)
    gates = (Section("gates", "Goals and gates", (gate_table(verdicts),)),) if verdicts else ()
    return Page(
        title=results.study.title,
        source="",
        facts=(("Study", results.study.id), ("Scale", results.scale), ("Run", results.folder.path.name)),
        tiles=(*rate_tiles(results), audit_tile(results), *([verdict_tile(claims)] if claims else [])),
        warnings=tuple(warnings(results)),
        tabs=(Tab("answer", "Answer", (*gates, Section("points", "Points", (_points(results),)))),),
        answers=(answer(results, claims),),
    )


def _points(results: RunResults) -> Table:
    metric = headline(results)
    systems = [system.name for system in results.systems]
    rows = tuple(
        row(Cell(point.label), *(measured(results, name, point, metric) for name in systems))
        for point in results.study_points
        if any(results.audits_of(name, point) for name in systems)
    )
    head = ("Point", *(stamped(name, results.stamps_of(name)) for name in systems))
    return Table(formatting.capital(formatting.metric(metric)), head, rows)
