"""SHOW: the study's exhibits, the verdicts on its claims, and the report of a run in every form.

Everything shown comes from the measures and from what the study published; only verdicts and ratios to published
figures are computed here. Nothing here runs, records or measures.
"""

from mqlab.report.document import as_json
from mqlab.report.several import write_index
from mqlab.report.terminal import print_summary
from mqlab.report.write import write_report

__all__ = ["as_json", "print_summary", "write_index", "write_report"]
