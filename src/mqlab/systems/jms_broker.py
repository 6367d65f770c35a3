"""What ActiveMQ Classic and Artemis share: durability, and the choice of the JMS client for the driver `jms`."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Final

from mqlab.systems.api import Durability, Syncs
from mqlab.systems.install.download import path_of
from mqlab.systems.install.qpid_jms import QPID_JMS
from mqlab.systems.program import Program

_OWN: Final = "own"
# The value of the setting `client`, and the provider of the JMS driver.
_QPID_JMS: Final = "qpid-jms"


class JmsBroker(Program):
    """A broker that comes with a JMS client. It speaks AMQP 1.0 too, so that Qpid JMS can be its client as well."""

    defaults_with: ClassVar[Mapping[str, Mapping[str, str]]] = {"jms": {"client": _OWN}}
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"sync": ("yes", "no"), "client": (_OWN, _QPID_JMS)}

    def __init__(self, settings: dict[str, str]) -> None:
        super().__init__(settings)
        if self.uses_qpid_jms:
            self.parts = (*self.parts, QPID_JMS)

    @property
    def uses_qpid_jms(self) -> bool:
        return self.driver == "jms" and self.chosen("client") == _QPID_JMS

    @property
    @abstractmethod
    def own_jars(self) -> str:
        """The class path of the client that it comes with."""

    @property
    def jars(self) -> str:
        return str(path_of(QPID_JMS)) if self.uses_qpid_jms else self.own_jars

    @property
    def jms_options(self) -> Mapping[str, str]:
        return {"provider": _QPID_JMS if self.uses_qpid_jms else self.name, "jars": self.jars}

    def journal_durability(self, *, unsynced: Syncs, removal: str = "") -> Durability:
        """`unsynced`: whether it syncs without the setting `sync`. `removal`: a phrase about removed messages."""
        synced, jms = self.chosen("sync") == "yes", self.driver == "jms"
        acknowledged, replies = (
            "when the consumer asks for the next message, acknowledges or commits",
            "on a queue shared by all; each requester has one consumer with a selector for its correlation ids",
        )
        if jms:
            acknowledged = "auto: at delivery to the consumer; else when the consumer acknowledges or commits"
            replies = "on a queue shared by all, by a selector on the correlation id"
        return Durability(
            syncs="before confirming" if synced else unsynced,
            persistent=f"written to the journal{' and synced' if synced else ', not synced'}"
            + ("; a confirmed batch is a transaction" if jms and not self.uses_qpid_jms else ""),
            confirmed="in the queues, in memory",
            acknowledged=acknowledged + removal,
            replies=replies,
        )
