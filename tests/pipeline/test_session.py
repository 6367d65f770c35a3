"""The session: what it says when it cannot start, and what it leaves alone."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from pyspark import SparkContext

from mqlab.pipeline import session as spark_module
from mqlab.pipeline.session import SparkSettingError, SparkTarget, SparkUnavailableError, spark_session

START = """
import sys
from mqlab.pipeline.session import SparkTarget, SparkUnavailableError, spark_session
try:
    spark_session(SparkTarget(*sys.argv[1:]))
except SparkUnavailableError as error:
    sys.exit(f"said: {error}")
"""


def started(folder: Path, *arguments: str, **environment: str) -> str:
    """What a process of its own, in an empty folder, says when it asks for a session."""
    paths = {"PYTHONPATH": ":".join(path for path in sys.path if path)}
    command = [sys.executable, "-c", START, *arguments]
    ended = subprocess.run(
        command, cwd=folder, env=paths | environment, capture_output=True, text=True, timeout=240, check=False
    )
    return ended.stderr.strip()


def test_no_java_is_one_sentence(tmp_path: Path) -> None:
    assert started(tmp_path, PATH="") == (
        "said: the measures are computed by Spark, which needs a Java runtime, version 17 or later: "
        "none was found through JAVA_HOME or PATH"
    )


def test_a_wrong_java_home_is_named(tmp_path: Path) -> None:
    assert started(tmp_path, JAVA_HOME=str(tmp_path), PATH="/usr/bin:/bin").endswith(
        f"none was found in JAVA_HOME ({tmp_path})"
    )


def test_a_java_that_fails_is_quoted(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'class file has wrong version' >&2\nexit 1\n")
    java.chmod(0o755)
    said = started(tmp_path, JAVA_HOME=str(tmp_path), PATH="/usr/bin:/bin")
    assert said == "said: Spark did not start on local[*]: class file has wrong version"


def test_spark_connect_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_module, "find_spec", lambda _: None)
    with pytest.raises(SparkUnavailableError) as refused:
        spark_session(SparkTarget("sc://127.0.0.1:1"))
    assert str(refused.value) == (
        "Spark did not start on sc://127.0.0.1:1: Spark Connect needs grpc, pandas, zstandard "
        "(pip install 'mqlab[connect]')"
    )


@pytest.mark.parametrize("text", ["spark.executor.memory", "executor.memory=1g"])
def test_a_setting_has_a_name_of_spark_and_a_value(text: str) -> None:
    with pytest.raises(SparkSettingError, match=f"--conf {text}: must be spark.KEY=VALUE"):
        SparkTarget.parse(None, [text])


@pytest.mark.parametrize("text", ["spark.sql.ansi.enabled=false", "spark.master=yarn"])
def test_a_setting_that_changes_figures_is_refused(text: str) -> None:
    with pytest.raises(SparkSettingError, match="cannot be set"):
        SparkTarget.parse(None, [text])


def test_a_setting_has_the_value_behind_the_first_equals_sign() -> None:
    target = SparkTarget.parse("yarn", ["spark.executor.extraJavaOptions=-Da=b"])
    assert target == SparkTarget("yarn", {"spark.executor.extraJavaOptions": "-Da=b"})


def test_a_master_that_is_none_is_one_sentence(tmp_path: Path) -> None:
    said = started(tmp_path, "nonsense", PATH=os.environ["PATH"], JAVA_HOME=os.environ.get("JAVA_HOME", ""))
    assert said.startswith("said: Spark did not start on nonsense: ")
    assert "Master must" in said
    assert "\n" not in said


@pytest.mark.usefixtures("spark")
def test_session_is_quiet_local_and_leaves_ctrl_c_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    before = signal.getsignal(signal.SIGINT)
    again = spark_session()
    assert again.range(3).count() == 3
    assert signal.getsignal(signal.SIGINT) is before
    assert again.conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_spark_never_takes_ctrl_c_from_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark replaces the handler of SIGINT wherever it starts in the main thread, for as long as that takes."""
    threads = []

    class Session:
        builder = property(lambda self: self)

        def config(self, **_: object) -> "Session":
            return self

        def getOrCreate(self) -> "Session":  # noqa: N802 - PySpark's name
            threads.append(threading.current_thread())
            return self

    monkeypatch.setattr(spark_module, "SparkSession", Session())
    monkeypatch.setattr(SparkContext, "_gateway", object())
    spark_session()
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()
