"""The former module of LocalBroker. Import it from `mqlab.broker.server.inprocess.local_broker`."""

import warnings

from mqlab.broker.server.inprocess.local_broker import LocalBroker

warnings.warn("mqlab.broker.server.local is now mqlab.broker.server.inprocess", DeprecationWarning, stacklevel=2)

__all__ = ["LocalBroker"]
