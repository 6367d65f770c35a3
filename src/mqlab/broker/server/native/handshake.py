"""The handshake of the native protocol: HELLO names the protocol version, the user and the client id."""

import asyncio
from typing import Protocol

from mqlab.broker.core.model.destination_names import BadNameError, check_name
from mqlab.broker.security.rights import ANYONE, User
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.connections.open_connection import OpenConnection
from mqlab.wire.native import frames as native
from mqlab.wire.native.frames import Frame, Kind, ProtocolError


class HandshakingConnection(OpenConnection, Protocol):
    """The connection, as far as the handshake is concerned."""

    application: str
    peer: str

    @property
    def is_gone(self) -> bool: ...

    def welcome(self, user: User, client_id: str) -> None: ...

    def fail(self, code: str, message: str) -> None: ...


class NativeHandshake:
    """Handles the HELLO of one connection, which accepts no other frame until the login is done."""

    def __init__(self, broker: Broker, connection: HandshakingConnection) -> None:
        self._broker = broker
        self._connection = connection
        # The user that the client's certificate names, or "".
        self.certified_name = ""
        self._hello_received = False
        # The client ends an older connection with the same client id.
        self._takes_over = False

    def hello(self, frame: Frame) -> None:
        """Raises ProtocolError. A login takes a while; then the connection is accepted or ended."""
        if frame.kind != Kind.HELLO or self._hello_received:
            raise ProtocolError("the first frame must be HELLO, and nothing follows before its answer")
        self._hello_received = True
        hello = frame.json()
        version, client_id, application = (hello.get(key, "") for key in ("version", "client_id", "application"))
        if version != native.VERSION:
            raise ProtocolError(f"protocol version {version!r}; this broker speaks {native.VERSION}")
        if not isinstance(client_id, str) or not isinstance(application, str):
            raise ProtocolError("client_id and application are texts")
        if application:
            self._check(application, "the name of an application")
        self._connection.application = application
        self._takes_over = hello.get("take_over") is True
        if self._broker.users is None:
            self._accept(ANYONE, client_id)
            return
        name, password = hello.get("user"), hello.get("password")
        if hello.get("external") is True:
            self._log_in_by_certificate(name, client_id)
            return
        if not isinstance(name, str) or not isinstance(password, str):
            self._connection.fail("login", "this broker needs a user and a password")
            return
        task = asyncio.ensure_future(self._log_in(name, password, client_id))
        self._broker.hold_task(task)

    def _log_in_by_certificate(self, name: object, client_id: str) -> None:
        """`name`: who the client wants to be, if it says so. Raises ProtocolError."""
        certified = self.certified_name
        assert self._broker.users is not None
        user = self._broker.users.named(certified) if certified and name in (None, certified) else None
        if user is None:
            self._connection.fail("login", "the client's certificate does not name this user of the broker")
        else:
            self._accept(user, client_id)

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
            self._accept(user, client_id)
        except ProtocolError as error:
            self._connection.fail("protocol", str(error))
        broker.run_effects()

    def _accept(self, user: User, client_id: str) -> None:
        """A client with a client id has one connection. Each user has client ids of its own.

        With `take_over` the older connection ends: the client may have lost it while the broker has not noticed.
        """
        if client_id:
            self._claim(client_id, user)
        self._connection.welcome(user, client_id)

    def identify(self, client_id: str, *, sole: bool) -> None:
        """Check the name of a client that has logged in without one. Raises ProtocolError.

        Other connections may have the same client id unless the client asks for the `sole` connection with it.
        """
        if sole:
            self._claim(client_id, self._connection.user)
        else:
            self._check(client_id, "a client id")

    def _claim(self, client_id: str, user: User) -> None:
        self._check(client_id, "a client id")
        others = self._broker.connections - {self._connection}
        for other in [other for other in others if other.client_id == client_id and other.user.name == user.name]:
            if not self._takes_over:
                raise ProtocolError(f"client id {client_id!r} is connected already")
            other.drop(taken_over=True)

    def _check(self, name: str, label: str) -> None:
        try:
            check_name(name, label)
        except BadNameError as error:
            raise ProtocolError(str(error)) from error
