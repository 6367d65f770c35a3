"""The files for other programs, read as those programs read them."""

import csv
import io
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from mqlab.report.claims.gates import judge_gates
from mqlab.report.data.run_results import RunResults
from mqlab.report.export.csv_file import measures_csv
from mqlab.report.export.hdr_log import hdr_log
from mqlab.report.export.junit import junit_xml, run_suite
from mqlab.report.export.openmessaging import openmessaging_files
from mqlab.report.export.summary import summary_page
from mqlab.report.render import markdown
from mqlab.study.language.gate import parse_gate, parse_goal
from report.conftest import Write
from report.synthetic_runs import RATES, SyntheticRuns


@pytest.fixture
def results(made: SyntheticRuns, write: Write) -> RunResults:
    return RunResults.of(write(made))


def test_junit_counts_what_failed_and_what_is_not_known(made: SyntheticRuns, write: Write) -> None:
    made.rows["audits"][0].update(status="failed", reason='3 lost <"&>')
    results = RunResults.of(write(made))
    gates = [parse_gate("latency.p99 > 1ms"), parse_goal("latency.p99 < 5ms"), parse_gate("latency.p99 > 4.1ms")]
    root = ElementTree.fromstring(junit_xml([run_suite(results, judge_gates(results, gates))]))
    (suite,) = root
    counts = {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "12", "failures": "2", "errors": "1", "skipped": "0"}
    assert counts.items() <= root.attrib.items()
    first, second, third, audit, *others = suite
    assert [child.tag for child in first] == ["failure"]
    assert [*second] == []
    assert [child.tag for child in third] == ["error"]
    assert audit[0].get("message") == 'failed: 3 lost <"&>'
    assert all(not [*case] for case in others)


def test_csv_has_every_measure(results: RunResults) -> None:
    rows = list(csv.DictReader(io.StringIO(measures_csv([results]))))
    assert len(rows) == len(results.measures)
    found = {(row["scenario"], row["metric"]): row for row in rows}
    assert float(found["A", "rate.received"]["value"]) == RATES["A"]
    assert found["G", "confirm.p99"]["unit"] == "s"
    assert {row["study"] for row in rows} == {"jms-four-brokers"}


def test_csv_leaves_out_a_percentile_of_few_observations(made: SyntheticRuns, write: Write) -> None:
    for measure in made.rows["measures"]:
        measure["observations"] = 100 if measure["metric"] == "latency.p99.9" else None
    rows = list(csv.DictReader(io.StringIO(measures_csv([RunResults.of(write(made))]))))
    assert {row["value"] for row in rows if row["metric"] == "latency.p99.9"} == {""}


def test_the_summary_is_short(results: RunResults) -> None:
    text = markdown.render(summary_page(results, judge_gates(results, [parse_gate("latency.p99 > 1ms")])))
    assert text.startswith("# ")
    assert "## Goals and gates" in text
    assert "latency.p99 \\> 1ms" in text
    assert len(text.splitlines()) < 60


def test_hdr_log_is_read_by_the_library(results: RunResults, tmp_path: Path) -> None:
    file = tmp_path / "latencies.hlog"
    file.write_text(hdr_log([results]))
    reader = HistogramLogReader(str(file), HdrHistogram(1, 10**10, 3))
    histograms = []
    while (one := reader.get_next_interval_histogram()) is not None:
        histograms.append(one)
    reader.close()
    assert [one.get_tag() for one in histograms] == [f"embedded/{name}/latency" for name in sorted(RATES)]
    rows = [row for row in results.latencies if row.scenario == "A"]
    first = histograms[0]
    assert first.get_total_count() == sum(row.count for row in rows)
    assert first.get_max_value() == pytest.approx(1e9 * rows[-1].latency, rel=0.002)
    assert first.get_value_at_percentile(50) == pytest.approx(4e5, rel=0.002)


def test_openmessaging_has_a_file_for_each_point(results: RunResults) -> None:
    files = dict(openmessaging_files(results))
    assert len(files) == len(RATES)
    content = next(one for one in files.values() if one["workload"] == "jms-four-brokers B")
    assert json.loads(json.dumps(content)) == content
    assert (content["driver"], content["messageSize"], content["topics"]) == ("embedded", 12, 1)
    assert (content["producersPerTopic"], content["consumersPerTopic"]) == (1, 15)
    # Three runs, of three seconds each in the measure phase.
    assert len(content["publishRate"]) == len(content["consumeRate"]) == 9
    assert content["consumeRate"][0] == pytest.approx(RATES["B"], rel=0.05)
    assert content["aggregatedEndToEndLatency50pct"] == pytest.approx(0.4)
    assert content["aggregatedEndToEndLatencyMax"] == pytest.approx(98.7)
    assert content["aggregatedEndToEndLatencyQuantiles"]["99"] == content["aggregatedEndToEndLatency99pct"]
    assert "aggregatedPublishLatencyAvg" not in content, "nobody waited for a confirmation"
