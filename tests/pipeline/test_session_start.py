"""The start of a Spark session that is no longer needed."""

import subprocess
from collections.abc import Iterator
from threading import Event

import pytest

from mqlab.pipeline import session_start
from mqlab.pipeline.session import SparkTarget
from mqlab.pipeline.session_start import SessionStart


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> Iterator[Event]:
    """A session starts until this is set."""
    event = Event()
    monkeypatch.setattr(session_start, "spark_session", lambda _: event.wait())
    yield event
    event.set()


def waiting() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["bash", "-c", "read; exit 7"], stdin=subprocess.PIPE)


@pytest.mark.usefixtures("release")
def test_only_its_own_process_is_killed() -> None:
    with waiting() as earlier, subprocess.Popen(["cat"], stdin=subprocess.PIPE) as another:
        start = SessionStart(SparkTarget())
        with waiting() as java:
            start.abandon()
            assert java.wait() < 0
        assert another.communicate(b"")[0] is None
        assert another.returncode == 0
        earlier.communicate(b"\n")
        assert earlier.returncode == 7


def test_a_session_that_is_there_is_kept(release: Event) -> None:
    release.set()
    start = SessionStart(SparkTarget())
    start._session.result()
    with waiting() as java:
        start.abandon()
        java.communicate(b"\n")
        assert java.returncode == 7
