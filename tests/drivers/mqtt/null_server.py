"""The null server of MQTT. It delivers messages with QoS 0."""

from typing import cast

from drivers.null_servers import NullServer
from mqlab.wire.mqtt import decoder, messages, packets

_CONNACK, _SUBACK, _PINGRESP = 0x20, 0x90, 0xD0


class MqttNullServer(NullServer):
    def __init__(self, size: int, batch: int) -> None:
        super().__init__(size, batch)
        self._version: packets.Version = 5
        self._splitter: decoder.MqttDecoder | None = None

    def handle_data(self, data: memoryview) -> None:
        raw = bytes(data)
        if self._splitter is None:
            # The CONNECT packet has the version right behind the protocol's name.
            self._version = cast(packets.Version, raw[raw.index(b"MQTT") + 4])
            self._splitter = decoder.MqttDecoder(self._version, kinds=packets.FROM_CLIENT)
        for item in self._splitter.feed(raw):
            if isinstance(item, decoder.Packet):
                self._answer(item)
            elif isinstance(item, decoder.PublishBatch) and item.ids:
                self.write(messages.acknowledgements(item.ids))

    def _answer(self, request: decoder.Packet) -> None:
        none = b"\0" if self._version == 5 else b""
        if request.kind == packets.CONNECT:
            self.write(packets.packet(_CONNACK, b"\0\0" + none))
        elif request.kind == packets.SUBSCRIBE:
            self.write(packets.packet(_SUBACK, request.rest[:2] + none + b"\1"))
            begin = 2 + len(none)
            size = int.from_bytes(request.rest[begin : begin + 2], "big")
            topic = request.rest[begin + 2 : begin + 2 + size].decode()
            self._messages = messages.MqttPublisher(self._version, topic, qos=0).batch(self.bodies)
        elif request.kind == packets.PINGREQ:
            self.write(packets.packet(_PINGRESP, b""))
