"""The JMS client of Qpid, for brokers that speak AMQP 1.0 and have no JMS client of their own."""

from typing import Final

from mqlab.systems.install.download import Jars

# With a logger that discards everything.
QPID_JMS: Final = Jars(("org.apache.qpid:qpid-jms-client:1.14.0", "org.slf4j:slf4j-nop:2.0.17"))
