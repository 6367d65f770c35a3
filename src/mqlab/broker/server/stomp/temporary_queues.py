"""The temporary queues of a connection: what its client calls them, and what the broker does."""

from mqlab.broker import limits
from mqlab.broker.core.errors import RefusedError
from mqlab.broker.core.model.destination_names import check_name
from mqlab.broker.server.stomp.commands import JsonObject, NativeCommands
from mqlab.broker.server.stomp.messages.destination_names import TEMPORARY, native_name


class TemporaryQueues:
    def __init__(self, commands: NativeCommands) -> None:
        self._commands = commands
        # "" until the broker has told its name.
        self._names: dict[str, str] = {}

    def ready(self, written: str) -> bool:
        """Whether `name` can tell it; a temporary queue is made when it is first named. Raises RefusedError."""
        if not written.startswith(TEMPORARY):
            return True
        if written not in self._names:
            check_name(written.removeprefix(TEMPORARY), "the name of a temporary queue")
            if len(self._names) >= limits.LINKS_A_CONNECTION:
                raise RefusedError(f"a connection has at most {limits.LINKS_A_CONNECTION} temporary queues")
            self._names[written] = ""
            self._commands.ask({"ask": "temporary"}, lambda said: self._made(written, said))
        return bool(self._names[written])

    def name(self, written: str) -> str:
        """The broker's name for a destination. Raises BadNameError."""
        return self._names.get(written) or native_name(written)

    def _made(self, written: str, said: JsonObject) -> None:
        self._names[written] = str(said["name"])
