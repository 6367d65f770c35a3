"""The null server of JMS: a provider inside the JVM (java/NullProvider.java), so this one never gets a connection."""

from collections.abc import Mapping

from mqlab.drivers.null_server.api import NullServer


class JmsNullServer(NullServer):
    # The JVM compiles while it runs.
    warm_up_s = 1.0

    @classmethod
    def options(cls, size: int, jars: str) -> Mapping[str, str]:
        """Use the null provider; of the jars it needs the JMS interfaces only."""
        return {"jars": jars, "jndi.java.naming.factory.initial": "mqlab.jms.NullProvider", "lookup": str(size)}

    def handle_data(self, data: memoryview) -> None:
        """No client connects."""
