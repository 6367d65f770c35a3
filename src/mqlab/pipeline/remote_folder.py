"""Run folders on a file system that only Spark reads, through the connectors of Hadoop: `hdfs:`, `s3a:` and others.

The driver has a copy of all that is small. Tasks check the large event files and count their events. The measures are
written to the copy, and then copied back; their history is beside the run folder, as on this machine.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow.parquet as pq
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.utils import is_remote

from mqlab.events.checksums import SUFFIX, EventFile
from mqlab.events.folder import NotARunFolderError, RunFolder
from mqlab.events.schema import TABLES
from mqlab.events.sources import LARGE_TABLES, EventSources, event_sources, examine_parts
from mqlab.pipeline.file_tasks import DESCRIPTIONS, describe_files
from mqlab.pipeline.history.dataset import history_rows, history_url
from mqlab.pipeline.measure_tables import begin_measures, sources_file
from mqlab.pipeline.shared_folder import event_files

_META: Final = "meta.json"
# A row of these is a file: a batch of the default 10,000 would be too large. A larger file is alone in its batch.
_BATCH_BYTES: Final = {"spark.sql.execution.arrow.maxBytesPerBatch": str(64 << 20)}


@dataclass(frozen=True)
class RemoteFolder:
    """`copy`: meta.json, the study, and the event files of small tables. `sources`: all event files."""

    url: str
    copy: RunFolder
    sources: EventSources

    @classmethod
    def fetch(cls, spark: SparkSession, url: str, path: Path) -> "RemoteFolder":
        """`path`: an empty folder for the copy. Raises NotARunFolderError."""
        for name, value in _BATCH_BYTES.items():
            spark.conf.set(name, value)
        found = _list(spark, url)
        metas = [each for each in found if each.endswith(f"/{_META}")]
        if not metas:
            raise NotARunFolderError(f"{url}: not a run folder (it has no {_META})")
        # As Spark spells it, which may add the name of a host.
        base = min(metas, key=len)[: -len(_META) - 1]
        files = {each: Path(each[len(base) + 1 :]) for each in found if each.startswith(f"{base}/")}
        large = {each: path / name for each, name in files.items() if _table(name) in LARGE_TABLES}
        small = {
            each: path / name for each, name in files.items()
            if each not in large and (_table(name) or name.parts[0] == "study" or str(name) == _META)
        }  # fmt: skip
        for row in _read(spark, small).select("path", "content").collect():
            target = small[row["path"]]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(row["content"])
        copies = [
            replace(file, url=each)
            for each, name in small.items() if _table(name.relative_to(path)) for file in examine_parts(name)
        ]  # fmt: skip
        examined = sorted([*copies, *_describe(spark, large)], key=lambda file: file.path)
        return cls(base, RunFolder.open(path), event_sources(examined))

    def copy_back(self, spark: SparkSession) -> None:
        """Copy the measures to the run folder. Its measures are unfinished until all are there."""
        with TemporaryDirectory(prefix="mqlab-measures-") as path:
            unfinished = RunFolder(Path(path))
            begin_measures(unfinished)
            tables = sorted(self.copy.measures.glob("*/*.parquet"))
            for file in (sources_file(unfinished), *tables, sources_file(self.copy)):
                name = file.relative_to(unfinished.path if file.is_relative_to(path) else self.copy.path)
                _put(spark, file, f"{self.url}/{name.as_posix()}")

    def record_history(self, spark: SparkSession) -> None:
        """Write the measures to the history beside the run folder. Raises NotARunFolderError if nothing can be there.

        The file is there, and whole, once the connector has closed it.
        """
        runs, _, name = self.url.rpartition("/")
        if runs.endswith(":/"):
            raise NotARunFolderError(f"{self.url} has no folder around it")
        with TemporaryDirectory(prefix="mqlab-history-") as path:
            file = Path(path, f"{name}.parquet")
            pq.write_table(history_rows(self.copy, name), file)
            _put(spark, file, f"{history_url(runs)}/{file.name}")


def _table(name: Path) -> str:
    """The table of an event file; "" for other files."""
    is_event_file = len(name.parts) == 3 and name.parts[0] == "events" and name.name.endswith(SUFFIX)
    return name.parts[1] if is_event_file and name.parts[1] in TABLES else ""


def _read(spark: SparkSession, paths: Iterable[str]) -> DataFrame:
    return spark.read.format("binaryFile").load([*paths])


def _list(spark: SparkSession, url: str) -> list[str]:
    try:
        listed = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(url).select("path")
        return [row["path"] for row in listed.collect()]
    except AnalysisException as error:
        raise NotARunFolderError(f"{url}: cannot be listed ({str(error).strip().splitlines()[0]})") from error


def _describe(spark: SparkSession, files: Mapping[str, Path]) -> list[EventFile]:
    if not files:
        return []
    described = (
        _read(spark, files).select("path", "content").mapInArrow(describe_files, from_arrow_schema(DESCRIPTIONS))
    )
    return [file for row in described.collect() for file in event_files(files[row["path"]], [row], row["path"])]


def _put(spark: SparkSession, file: Path, url: str) -> None:
    """Copy a file of this machine to a file system of Spark."""
    if is_remote():
        spark.copyFromLocalToFs(str(file), url)
        return
    hadoop = spark.sparkContext._jvm.org.apache.hadoop.fs  # type: ignore[union-attr]  # py4j has no types
    source, target = hadoop.Path(file.as_uri()), hadoop.Path(url)
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    here, there = source.getFileSystem(settings), target.getFileSystem(settings)
    hadoop.FileUtil.copy(here, source, there, target, False, True, settings)
