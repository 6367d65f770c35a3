"""For all tests: groups that run in one process, its Spark session, and no deadline for Hypothesis examples."""

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from mqlab.pipeline.session import spark_session

# Folders and files that share an expensive set-up: a Spark session that has compiled the pipeline, the report of a
# whole study, a broker. Each group runs in one process; every other file is a group of its own. Tests with Spark have
# several groups, since one would keep a single process busy long after all others.
GROUPS = {
    "tests/broker/core/selectors/test_engines.py": "commands",
    "tests/cli/test_capacity.py": "commands",
    "tests/cli/test_ci_page.py": "commands",
    "tests/cli/test_decisive.py": "commands",
    "tests/cli/test_demo.py": "commands",
    "tests/cli/test_documented.py": "commands",
    "tests/cli/test_failure_howto.py": "commands",
    "tests/cli/test_faults.py": "commands",
    "tests/cli/test_follow.py": "commands",
    "tests/cli/test_history.py": "commands",
    "tests/cli/test_interrupt.py": "commands",
    "tests/cli/test_overhead.py": "commands",
    "tests/cli/test_resume.py": "commands",
    "tests/cli/test_run.py": "commands",
    "tests/cluster/": "cluster",
    "tests/pipeline/": "pipeline",
    "tests/spark/": "commands",
    "tests/report/": "report",
    "tests/broker/server/stomp/": "stomp",
}

# An example may take as long as the machine needs; the time limit of the test ends an endless one.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

# Other tests run beside each run: no test repeats one for that, unless it is about noise.
os.environ["MQLAB_IGNORE_NOISE"] = "1"

# A shell lets background processes ignore Ctrl-C, and every process of a test would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc] # xdist has no types
    """An idle process gets the next group; groups with the most tests come first."""

    def _split_scope(self, nodeid: str) -> str:
        file, _, _ = nodeid.partition("::")
        return next((group for start, group in GROUPS.items() if file.startswith(start)), file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> GroupScheduling:
    return GroupScheduling(config, log)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as environment:
        # A few thousand rows a pass: the time that Java's second compiler takes never comes back.
        options = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
        environment.setenv("JDK_JAVA_OPTIONS", options)
        session = spark_session()
    yield session
    session.stop()
