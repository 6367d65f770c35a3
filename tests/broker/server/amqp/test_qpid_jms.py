"""A JMS 2.0 program on Qpid JMS, unchanged, as a client of the broker."""

import os
import subprocess
from pathlib import Path

import pytest

from mqlab.systems.install.download import Java, missing, path_of
from mqlab.systems.install.qpid_jms import QPID_JMS

PROGRAM = Path(__file__).with_name("java") / "QpidJmsProgram.java"
PARTS = (
    "bodies", "headers and properties", "selector", "invalid selector", "request and reply", "temporary topic",
    "transaction", "recover", "browser", "expiry", "delivery delay", "priority", "receive without waiting",
    "durable subscription", "shared subscription", "shared durable subscription", "no local", "client id",
    "completion listener", "anonymous producer",
)  # fmt: skip
# A short program: a compiler that optimizes would cost more than it saves.
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
SECONDS = 240


def test_jms_program_runs_unchanged(port: int, tmp_path: Path) -> None:
    reasons = [reason for part in (Java(), QPID_JMS) if (reason := missing(part))]
    if reasons and os.environ.get("MQLAB_TEST_SYSTEMS") != "all":
        pytest.skip(f"{', '.join(reasons)}: mqlab systems install embedded:driver=jms")
    assert not reasons
    java, jars = path_of(Java()), os.pathsep.join(map(str, path_of(QPID_JMS).glob("*.jar")))
    compiler = [str(java), *QUICK, "-m", "jdk.compiler/com.sun.tools.javac.Main"]
    subprocess.run([*compiler, "-d", str(tmp_path), "-cp", jars, str(PROGRAM)], check=True, timeout=SECONDS)
    ran = subprocess.run(
        [str(java), *QUICK, "-cp", f"{tmp_path}{os.pathsep}{jars}", PROGRAM.stem, f"amqp://127.0.0.1:{port}"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ran.stdout.splitlines() == [f"ok {part}" for part in PARTS], ran.stderr
    assert ran.returncode == 0
