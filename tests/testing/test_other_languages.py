"""The examples for JavaScript, Java and Go, with the real clients: rhea, mqtt.js, stompjs; Qpid JMS, Paho; go-stomp."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mqlab.cache import cache
from mqlab.systems import SystemFailedError
from mqlab.systems.install.download import Jars, Java, install, missing, path_of
from mqlab.systems.install.qpid_jms import QPID_JMS

EXAMPLES = Path(__file__).parents[2] / "examples" / "testing"
JARS = Jars((*QPID_JMS.coordinates, "org.eclipse.paho:org.eclipse.paho.client.mqttv3:1.2.5"))
SECONDS = 600
ENVIRONMENT = {**os.environ, "MQLAB": f"{sys.executable} -m mqlab"}


def skip_or_fail(reason: str) -> None:
    """Where all systems are tested, the clients must be there too."""
    if os.environ.get("MQLAB_TEST_SYSTEMS") == "all":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def node_modules() -> Path:
    """The packages of the example, in the cache folder."""
    if shutil.which("npm") is None:
        skip_or_fail("npm is not installed")
    folder = cache() / "npm" / "examples-testing"
    if not (folder / "complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(EXAMPLES / "javascript" / "package.json", folder)
        command = ["npm", "install", "--no-audit", "--no-fund"]
        ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)
        if ended.returncode:
            skip_or_fail(f"npm cannot get the clients: {ended.stderr[-300:]}")
        (folder / "complete").touch()
    return folder / "node_modules"


def test_javascript_clients(node_modules: Path, tmp_path: Path) -> None:
    folder = tmp_path / "javascript"
    shutil.copytree(EXAMPLES / "javascript", folder, ignore=shutil.ignore_patterns("node_modules"))
    shutil.copy(Path(__file__).with_name("rhea.test.mjs"), folder)
    (folder / "node_modules").symlink_to(node_modules)
    command = ["node", "--test", "--test-reporter=tap"]
    ended = subprocess.run(
        command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    passed = [line for line in ended.stdout.splitlines() if line.strip().startswith("ok ")]
    for client in ("rhea", "rhea: each receiver of a topic", "rhea: a receiver gets", "mqtt.js", "stompjs"):
        assert any(client in line for line in passed), ended.stdout


def test_java_clients(tmp_path: Path) -> None:
    if reason := missing(Java()):
        skip_or_fail(reason)
    try:
        install(JARS, print)
    except SystemFailedError as error:
        skip_or_fail(f"Maven cannot get the clients: {error}")
    java, jars = path_of(Java()), os.pathsep.join(map(str, path_of(JARS).glob("*.jar")))
    sources = [str(source) for source in sorted((EXAMPLES / "java").glob("*.java"))]
    compiler = [str(java), "-m", "jdk.compiler/com.sun.tools.javac.Main", "-d", str(tmp_path), "-cp", jars]
    subprocess.run([*compiler, *sources], check=True, timeout=SECONDS)
    command = [str(java), "-cp", f"{tmp_path}{os.pathsep}{jars}", "OrdersExample"]
    ended = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert ended.stdout.splitlines() == ["ok Qpid JMS", "ok Paho"], ended.stderr
    assert ended.returncode == 0


def test_go_client(tmp_path: Path) -> None:
    if shutil.which("go") is None:
        skip_or_fail("Go is not installed")
    folder = tmp_path / "go"
    shutil.copytree(EXAMPLES / "go", folder)
    # Go keeps the modules in a cache of its own.
    got = subprocess.run(
        ["go", "mod", "download"], cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if got.returncode:
        skip_or_fail(f"Go cannot get the client: {got.stderr[-300:]}")
    command = ["go", "test", "-v", "-count=1"]
    ended = subprocess.run(
        command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    passed = {line.split()[2] for line in ended.stdout.splitlines() if line.strip().startswith("--- PASS: ")}
    about = ("an order comes with its headers", "an order that is not accepted comes again",
             "an order and its invoice are one transaction", "a quiet client stays connected")  # fmt: skip
    assert passed == {"TestGoStomp", *(f"TestGoStomp/{one.replace(' ', '_')}" for one in about)}, ended.stdout
