"""The temporary queues of a STOMP connection: the client's names for them, and the broker's."""

from mqlab.broker import limits
from mqlab.broker.core.errors import CommandError
from mqlab.broker.core.model.destination_names import check_name
from mqlab.broker.server.stomp.commands import JsonObject, NativeCommands
from mqlab.broker.server.stomp.messages.destination_names import TEMPORARY, native_name


class TemporaryQueues:
    def __init__(self, commands: NativeCommands) -> None:
        self._commands = commands
        # The broker's name by the client's; "" until the broker has created the queue.
        self._names: dict[str, str] = {}

    def ready(self, written: str) -> bool:
        """Whether the destination can be used; the first use of a temporary queue creates it. Raises CommandError."""
        if not written.startswith(TEMPORARY):
            return True
        if written not in self._names:
            check_name(written.removeprefix(TEMPORARY), "the name of a temporary queue")
            if len(self._names) >= limits.LINKS_A_CONNECTION:
                raise CommandError(f"a connection has at most {limits.LINKS_A_CONNECTION} temporary queues")
            self._names[written] = ""
            self._commands.request({"ask": "temporary"}, lambda answer: self._created(written, answer))
        return bool(self._names[written])

    def name(self, written: str) -> str:
        """The broker's name for a destination. Raises BadNameError."""
        return self._names.get(written) or native_name(written)

    def _created(self, written: str, answer: JsonObject) -> None:
        self._names[written] = str(answer["name"])
