"""For tests of programs that use messages: a broker of their own, within milliseconds and without a container.

`mqlab.pytest_plugin` has the fixture `mqlab_broker`; `running_broker` is the same without pytest. The broker
(`observed_broker`) has a clock that a test can set, and records what was sent. It runs in a thread of the test's
process (`in_process`) or in a process of its own (`forked`).
"""

from mqlab.testing.fixture_broker import FixtureBroker
from mqlab.testing.running import running_broker
from mqlab.testing.sent import SentMessage

__all__ = ["FixtureBroker", "SentMessage", "running_broker"]
