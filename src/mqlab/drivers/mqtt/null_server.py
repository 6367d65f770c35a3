"""The null server of MQTT. It delivers messages with QoS 0."""

from typing import cast

from mqlab.drivers.null_server.api import NullServer
from mqlab.wire import mqtt

_CONNACK, _SUBACK, _PINGRESP = 0x20, 0x90, 0xD0


class MqttNullServer(NullServer):
    def __init__(self, size: int, batch: int) -> None:
        super().__init__(size, batch)
        self._version: mqtt.Version = 5
        self._splitter: mqtt.MqttDecoder | None = None

    def handle_data(self, data: memoryview) -> None:
        raw = bytes(data)
        if self._splitter is None:
            # The CONNECT packet has the version right behind the protocol's name.
            self._version = cast(mqtt.Version, raw[raw.index(b"MQTT") + 4])
            self._splitter = mqtt.MqttDecoder(self._version, kinds=mqtt.FROM_CLIENT)
        for item in self._splitter.feed(raw):
            if isinstance(item, mqtt.Packet):
                self._answer(item)
            elif isinstance(item, mqtt.PublishBatch) and item.ids:
                self.write(mqtt.acknowledgements(item.ids))

    def _answer(self, request: mqtt.Packet) -> None:
        none = b"\0" if self._version == 5 else b""
        if request.kind == mqtt.CONNECT:
            self.write(mqtt.packet(_CONNACK, b"\0\0" + none))
        elif request.kind == mqtt.SUBSCRIBE:
            self.write(mqtt.packet(_SUBACK, request.rest[:2] + none + b"\1"))
            begin = 2 + len(none)
            size = int.from_bytes(request.rest[begin : begin + 2], "big")
            topic = request.rest[begin + 2 : begin + 2 + size].decode()
            self._messages = mqtt.MqttPublisher(self._version, topic, qos=0).batch(self.bodies)
        elif request.kind == mqtt.PINGREQ:
            self.write(mqtt.packet(_PINGRESP, b""))
