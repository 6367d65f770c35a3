"""The setting `client`: the JMS client for ActiveMQ Classic and Artemis."""

from itertools import count
from pathlib import Path

import pytest

from mqlab.systems import SystemSettingError, system
from mqlab.systems.activemq_common import JmsBroker
from mqlab.systems.install.download import path_of
from mqlab.systems.install.qpid_jms import QPID_JMS
from mqlab.systems.program import Launch

BROKERS = ("activemq", "artemis")
both = pytest.mark.parametrize("name", BROKERS)


def broker(text: str) -> JmsBroker:
    found = system(text)
    assert isinstance(found, JmsBroker)
    return found


def launch(chosen: JmsBroker, folder: Path) -> Launch:
    ports = count(20_000)
    return chosen.launch(folder, lambda: next(ports))


@both
def test_without_the_setting_the_driver_uses_the_client_of_the_broker(name: str, tmp_path: Path) -> None:
    chosen = broker(f"{name}:driver=jms")
    assert chosen.describe()["settings"]["client"] == "own"
    assert QPID_JMS not in chosen.parts
    assert launch(chosen, tmp_path).options["jms"] == {"provider": name, "jars": chosen.own_jars}
    assert "a confirmed batch is a transaction" in chosen.durability().persistent


@both
def test_qpid_jms_talks_to_the_port_of_amqp(name: str, tmp_path: Path) -> None:
    chosen = broker(f"{name}:driver=jms,client=qpid-jms")
    assert chosen.describe()["settings"]["client"] == "qpid-jms"
    assert chosen.jars == str(path_of(QPID_JMS))
    launched = launch(chosen, tmp_path)
    assert launched.options["jms"] == {"provider": "qpid-jms", "jars": chosen.jars}
    assert launched.addresses["jms"] == launched.addresses["amqp10"]
    assert launched.ports["jms"] == launched.ports["amqp10"], "the lab waits for the port that it uses"
    # It confirms the messages of a batch one by one.
    assert "transaction" not in chosen.durability().persistent


def test_the_client_of_activemq_has_a_port_of_its_own(tmp_path: Path) -> None:
    addresses = launch(broker("activemq:driver=jms"), tmp_path).addresses
    assert len(set(addresses.values())) == 3


@both
def test_it_is_installed_with_the_client_that_is_chosen(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQLAB_CACHE", str(tmp_path))
    chosen = broker(f"{name}:driver=jms,client=qpid-jms")
    assert QPID_JMS in chosen.parts
    assert f"no {path_of(QPID_JMS).relative_to(tmp_path)}" in chosen.missing()
    assert chosen.missing().endswith(f": mqlab systems install {name}:driver=jms,client=qpid-jms")
    assert "qpid" not in broker(f"{name}:driver=jms").missing()


@both
def test_another_version_keeps_the_client(name: str) -> None:
    chosen = broker(f"{name}:driver=jms,client=qpid-jms,version=1.2.3")
    assert QPID_JMS in chosen.parts
    assert chosen.parts[1] != type(chosen).parts[1]


@pytest.mark.parametrize("text", ["artemis:client=qpid-jms", "activemq:driver=stomp,client=qpid-jms"])
def test_only_the_driver_jms_has_a_client_to_choose(text: str) -> None:
    with pytest.raises(SystemSettingError, match="has no setting 'client' with the driver stomp; it has: driver, "):
        system(text)
    assert "client" not in system(text.partition(":")[0] + ":driver=stomp").describe()["settings"]


@both
def test_a_client_that_nobody_knows_is_refused(name: str) -> None:
    with pytest.raises(SystemSettingError, match="client: 'openwire' is none of own, qpid-jms"):
        system(f"{name}:driver=jms,client=openwire")
