"""The setting `version`: another version of a system that the lab installs."""

import pytest

from cli.command import here
from mqlab.systems import SYSTEMS, SystemSettingError, system
from mqlab.systems.install.download import Archive, GoProgram, Jars, path_of
from mqlab.systems.program import Program

# Maven and Go have every version; apt-get has one for the whole machine.
WITH_VERSIONS = ("activemq", "artemis", "hornetq", "kafka", "nats", "openmq", "qpid")
ONE_VERSION = ("mosquitto", "rabbitmq", "redis")


def program(text: str) -> Program:
    chosen = system(text)
    assert isinstance(chosen, Program)
    return chosen


def own_parts(chosen: Program) -> list[Archive | Jars | GoProgram]:
    return [part for part in chosen.parts if isinstance(part, Archive | Jars | GoProgram)]


@pytest.mark.parametrize("name", WITH_VERSIONS)
def test_another_version_is_another_download_beside_the_first(name: str) -> None:
    usual, other = program(name), program(f"{name}:version=1.2.3-rc.1")
    assert (other.version, other.describe()["version"], other.label) == ("1.2.3-rc.1",) * 2 + (
        f"{name}:version=1.2.3-rc.1",
    )
    changed = [(one, two) for one, two in zip(own_parts(usual), own_parts(other), strict=True) if one != two]
    assert changed
    for one, two in changed:
        assert "1.2.3-rc.1" in str(two)
        assert usual.version not in str(two)
        assert path_of(one) != path_of(two)
    assert type(other).version == usual.version, "the others stay as they are"
    assert other.missing().endswith(f": mqlab systems install {name}:version=1.2.3-rc.1")


def test_what_has_another_version_stays(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQLAB_CACHE", str(tmp_path))
    assert program("nats:version=2.10.0").parts == (GoProgram("github.com/nats-io/nats-server/v2@v2.10.0"),)
    (jars,) = (part for part in program("kafka:version=4.0.0").parts if isinstance(part, Jars))
    assert jars.coordinates[0] == "org.apache.kafka:kafka_2.13:4.0.0"
    assert jars.coordinates[2].startswith("org.apache.logging.log4j:")
    assert "4.0.0" not in jars.coordinates[2]


def test_it_stays_with_the_settings_of_a_point() -> None:
    changed = program("nats:version=2.10.0").with_settings({"sync": "no"})
    assert (changed.version, changed.parts) == ("2.10.0", program("nats:version=2.10.0").parts)


@pytest.mark.parametrize("name", ONE_VERSION)
def test_a_package_of_the_machine_has_one_version(name: str) -> None:
    with pytest.raises(SystemSettingError, match="has one version for all; start two yourself"):
        system(f"{name}:version=1.2.3")
    assert program(f"{name}:version={program(name).version}").parts == program(name).parts


@pytest.mark.parametrize("version", ["", "..", "../1", "1/2", "1:2", "-1", "x" * 65])
def test_what_is_no_version(version: str) -> None:
    with pytest.raises(SystemSettingError, match="is not a version like 2"):
        SYSTEMS["nats"]({"version": version})


def test_every_program_is_one_or_the_other() -> None:
    programs = {name for name in SYSTEMS if isinstance(SYSTEMS[name]({}) if name != "external" else None, Program)}
    assert programs == {*WITH_VERSIONS, *ONE_VERSION}


def test_it_is_installed_by_its_name(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQLAB_CACHE", str(tmp_path))
    shown = here("systems", "install", "nats:version=2.10.0", "--dry-run")
    assert shown.exit_code == 0
    assert "no go/nats-server-v2.10.0/nats-server" in shown.stderr.replace("\n", "")
