"""The first frame of a client: which protocol it speaks, who it is, and whether it may come in."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from mqlab.broker.core.model.destination_names import BadNameError, check_name
from mqlab.broker.security.rights import ANYONE, User
from mqlab.broker.server.broker import Broker
from mqlab.wire import native
from mqlab.wire.native.frames import Frame, Kind, ProtocolError


class HandshakingConnection(Protocol):
    """The connection, as far as the handshake is concerned."""

    application: str
    peer: str

    @property
    def is_gone(self) -> bool: ...

    def welcome(self, user: User, client_id: str) -> None: ...

    def fail(self, code: str, message: str) -> None: ...


class NativeHandshake:
    """Greets one connection. Until it is let in, nothing else of it is looked at."""

    def __init__(self, broker: Broker, connection: HandshakingConnection) -> None:
        self._broker = broker
        self._connection = connection
        self._greeted = False
        # It takes the place of a connection that its client id had before.
        self._takes_over = False

    def hello(self, frame: Frame) -> None:
        """Raises ProtocolError. A login takes a while; the connection is let in, or ended, when it is done."""
        if frame.kind != Kind.HELLO or self._greeted:
            raise ProtocolError("the first frame must be HELLO, and nothing follows before its answer")
        self._greeted = True
        said = frame.json()
        version, client_id, application = (said.get(key, "") for key in ("version", "client_id", "application"))
        if version != native.VERSION:
            raise ProtocolError(f"protocol version {version!r}; this broker speaks {native.VERSION}")
        if not isinstance(client_id, str) or not isinstance(application, str):
            raise ProtocolError("client_id and application are texts")
        if application:
            self._check(application, "the name of an application")
        self._connection.application = application
        self._takes_over = said.get("take_over") is True
        if self._broker.users is None:
            self._let_in(ANYONE, client_id)
            return
        name, password = said.get("user"), said.get("password")
        if not isinstance(name, str) or not isinstance(password, str):
            self._connection.fail("login", "this broker wants a user and a password")
            return
        task = asyncio.ensure_future(self._log_in(name, password, client_id))
        self._broker.keep(task)

    async def _log_in(self, name: str, password: str, client_id: str) -> None:
        broker, connection = self._broker, self._connection
        assert broker.logins is not None
        user = await broker.logins.log_in(connection.peer, name, password, lambda: connection.is_gone)
        if connection.is_gone:
            return
        if user is None:
            connection.fail("login", "wrong user or password")
            return
        try:
            self._let_in(user, client_id)
        except ProtocolError as error:
            self._connection.fail("protocol", str(error))
        broker.run_effects()

    def _let_in(self, user: User, client_id: str) -> None:
        """A client with a client id is connected once. Client ids belong to users: another user's is another client.

        If the client says so, a connection it had before ends: it may be cut without knowing.
        """
        if client_id:
            self._check(client_id, "a client id")
            others: set[Any] = self._broker.connections - {self._connection}
            for other in [one for one in others if one.client_id == client_id and one.user.name == user.name]:
                if not self._takes_over:
                    raise ProtocolError(f"client id {client_id!r} is connected already")
                other.drop()
        self._connection.welcome(user, client_id)

    def _check(self, name: str, what: str) -> None:
        try:
            check_name(name, what)
        except BadNameError as error:
            raise ProtocolError(str(error)) from error
