"""SHOW: the study's exhibits, the verdicts on its claims, and the report of a run in every form.

Everything shown comes from the measures and from what the study published; only verdicts and ratios to published
figures are computed here. Nothing here runs, records or measures.
"""

from mqlab.report.render.json_document import as_json
from mqlab.report.render.run_index import write_index
from mqlab.report.render.terminal import print_summary
from mqlab.report.render.write import write_report

__all__ = ["as_json", "print_summary", "write_index", "write_report"]
