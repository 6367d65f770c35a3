"""The state that a protocol connection and the parts of its protocol share."""

from mqlab.broker.server.adapter.commands import NativeCommands


class AdapterState:
    def __init__(self) -> None:
        self.commands = NativeCommands()
        self.logged_in = False
        # The client got the protocol's error, which is the last frame; `refused`: the native connection would go on.
        self.failed = self.refused = False
