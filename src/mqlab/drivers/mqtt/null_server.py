"""The null server of MQTT: messages come with QoS 0, as those that nobody waits for do."""

from typing import cast

from mqlab.drivers.null_server.api import NullServer
from mqlab.wire.mqtt import (
    CONNECT,
    FROM_CLIENT,
    PINGREQ,
    SUBSCRIBE,
    MqttDecoder,
    MqttPublisher,
    Packet,
    PublishBatch,
    Version,
    acknowledgements,
    packet,
)

_CONNACK, _SUBACK, _PINGRESP = 0x20, 0x90, 0xD0


class MqttNullServer(NullServer):
    def __init__(self, size: int, batch: int) -> None:
        super().__init__(size, batch)
        self._version: Version = 5
        self._splitter: MqttDecoder | None = None
        self._messages = b""

    def received(self, data: memoryview) -> None:
        raw = bytes(data)
        if self._splitter is None:
            # The first packet says which version is spoken, right after the protocol's name.
            self._version = cast(Version, raw[raw.index(b"MQTT") + 4])
            self._splitter = MqttDecoder(self._version, kinds=FROM_CLIENT)
        for found in self._splitter.feed(raw):
            if isinstance(found, Packet):
                self._answer(found)
            elif isinstance(found, PublishBatch) and found.ids:
                self.write(acknowledgements(found.ids))

    def more(self) -> bytes | None:
        return self._messages or None

    def _answer(self, asked: Packet) -> None:
        none = b"\0" if self._version == 5 else b""
        if asked.kind == CONNECT:
            self.write(packet(_CONNACK, b"\0\0" + none))
        elif asked.kind == SUBSCRIBE:
            self.write(packet(_SUBACK, asked.rest[:2] + none + b"\1"))
            begin = 2 + len(none)
            size = int.from_bytes(asked.rest[begin : begin + 2], "big")
            topic = asked.rest[begin + 2 : begin + 2 + size].decode()
            self._messages = MqttPublisher(self._version, topic, qos=0).batch(self.bodies)
        elif asked.kind == PINGREQ:
            self.write(packet(_PINGRESP, b""))
