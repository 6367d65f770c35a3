"""The null server of JMS is a provider inside the client's own Java: nobody ever connects to this one."""

from collections.abc import Mapping

from mqlab.drivers.null_server.api import NullServer


class JmsNullServer(NullServer):
    # Java compiles as it runs.
    warm_up_s = 1.0

    @classmethod
    def options(cls, size: int, jars: str) -> Mapping[str, str]:
        """Of that library only JMS itself is used."""
        return {"jars": jars, "jndi.java.naming.factory.initial": "mqlab.jms.Null", "lookup": str(size)}

    def received(self, data: memoryview) -> None:
        """Not even this."""

    def more(self) -> bytes | None:
        return None
