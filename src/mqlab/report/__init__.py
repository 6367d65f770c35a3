"""SHOW: the study's exhibits, the verdicts on its claims, and the report of a run in every format.

All figures come from the measure tables and from the published values; this package computes only verdicts and ratios
to published figures. It runs, records and measures nothing.
"""

from mqlab.report.render.json_document import as_json, gates_json
from mqlab.report.render.run_index import write_index
from mqlab.report.render.terminal import print_gates, print_summary
from mqlab.report.render.write import write_report

__all__ = ["as_json", "gates_json", "print_gates", "print_summary", "write_index", "write_report"]
