"""The pipeline on runs of up to a billion messages, beside DuckDB and Polars on the same files with the same answers.

The generator (`_synthetic_events.py`) knows which messages it lost, repeated, mixed up or damaged: every side must find
exactly these, and the same rates and latencies, or there is no result. Of the times only warm ones count.

spark_over_duckdb, spark_over_polars: time over time at the largest size. growth: the time at the largest size over that
at the size before it, for as many messages. peak_gib: memory of all processes of Spark at the largest size.
study_pass_s: a pass over as many small runs as a quick study has. start_s: the start of Spark. compacted_over_plain: a
pass over 2,000 small runs (200 with --quick) whose event files are compacted, over one of files as agents write them.
many_runs: time and memory of a warm pass over 10,000 small runs (200 with --quick), or as many as --runs says.
"""

from _pipeline_sides import run

if __name__ == "__main__":
    run(__doc__ or "")
