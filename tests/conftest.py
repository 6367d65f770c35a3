"""For all tests: which of them stay together when they are spread over processes, and that no clock judges them."""

import signal

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

# Folders and files that share what is dear to set up: a Spark session that has compiled the pipeline, a report of a
# whole study, a broker. Each group runs in one process; every other file is a group of its own.
TOGETHER = {
    "tests/broker/core/selectors/test_engines.py": "spark",
    "tests/cli/test_faults.py": "spark",
    "tests/cli/test_interrupt.py": "spark",
    "tests/cli/test_overhead.py": "spark",
    "tests/cli/test_run.py": "spark",
    "tests/pipeline/": "spark",
    "tests/report/": "report",
    "tests/broker/server/stomp/": "stomp",
}

# An example may take as long as the machine needs for it: what must end is ended by the time limit of the test.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

# What a shell starts in the background ignores Ctrl-C, and every process of a test would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


class ByGroup(LoadScopeScheduling):
    """A process that has nothing to do gets the next group; those with the most tests come first."""

    def _split_scope(self, nodeid: str) -> str:
        file, _, _ = nodeid.partition("::")
        return next((group for start, group in TOGETHER.items() if file.startswith(start)), file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByGroup:
    return ByGroup(config, log)
