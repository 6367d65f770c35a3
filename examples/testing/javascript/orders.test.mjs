// npm install && npm test
import assert from "node:assert/strict";
import {after, before, test} from "node:test";

import {Client} from "@stomp/stompjs";
import mqtt from "mqtt";
import rhea from "rhea";
import WebSocket from "ws";

import {startBroker} from "./mqlab_broker.mjs";

let broker;
before(async () => { broker = await startBroker(); });
after(() => broker.stop());

test("rhea: an order comes over AMQP 1.0", async () => {
  const container = rhea.create_container();
  const connection = container.connect({host: broker.host, port: broker.port, reconnect: false});
  const order = new Promise((resolve) => container.once("message", (context) => resolve(context.message)));
  const accepted = new Promise((resolve) => container.once("accepted", resolve));
  connection.open_receiver("orders");
  const sender = connection.open_sender("orders");
  sender.once("sendable", () => {
    sender.send({body: "ten apples", durable: true, application_properties: {fruit: "apple"}});
  });
  const {body, durable, application_properties: properties} = await order;
  assert.deepEqual([body, durable, properties], ["ten apples", true, {fruit: "apple"}]);
  await accepted;
  const closed = new Promise((resolve) => container.once("connection_close", resolve));
  connection.close();
  await closed;
});

for (const protocolVersion of [4, 5]) {
  test(`mqtt.js: a meter reports with each QoS over MQTT, version ${protocolVersion}`, async () => {
    const client = await mqtt.connectAsync({host: broker.host, port: broker.port, protocolVersion});
    const reports = [];
    const all = new Promise((resolve) => client.on("message", (topic, body, packet) => {
      reports.push([topic, body.toString(), packet.qos]);
      if (reports.length === 3) resolve();
    }));
    await client.subscribeAsync("meters/+", {qos: 2});
    for (const qos of [0, 1, 2]) await client.publishAsync(`meters/${qos}`, "230", {qos});
    await all;
    assert.deepEqual(reports, [["meters/0", "230", 0], ["meters/1", "230", 1], ["meters/2", "230", 2]]);
    await client.endAsync();
  });
}

test("stompjs: an order comes over STOMP and WebSocket", async () => {
  const client = new Client({
    webSocketFactory: () => new WebSocket(`ws://${broker.host}:${broker.port}/`, ["v12.stomp"]), reconnectDelay: 0,
  });
  const connected = new Promise((resolve) => { client.onConnect = resolve; });
  client.activate();
  await connected;
  const order = new Promise((resolve) => client.subscribe("/queue/pears", (message) => {
    message.ack();
    resolve(message);
  }, {ack: "client-individual"}));
  client.publish({destination: "/queue/pears", body: "ten pears", headers: {fruit: "pear", persistent: "true"}});
  const message = await order;
  assert.deepEqual([message.body, message.headers.fruit], ["ten pears", "pear"]);
  await client.deactivate();
});
