// rhea beyond the example: topics and credit. It has no transactions.
import assert from "node:assert/strict";
import {after, before, test} from "node:test";

import rhea from "rhea";

import {startBroker} from "./mqlab_broker.mjs";

let broker;
before(async () => { broker = await startBroker(); });
after(() => broker.stop());

const once = (source, event) => new Promise((resolve) => source.once(event, resolve));

// Resolves when the receiver has got so many messages.
const bodies = (receiver, count) => new Promise((resolve) => {
  const got = [];
  receiver.on("message", (context) => {
    got.push(context.message.body);
    if (got.length === count) resolve(got);
  });
});

async function connected(use) {
  const connection = rhea.create_container().connect({host: broker.host, port: broker.port, reconnect: false});
  await use(connection);
  const closed = once(connection, "connection_close");
  connection.close();
  await closed;
}

async function send(connection, address, ...texts) {
  const sender = connection.open_sender(address);
  await once(sender, "sendable");
  for (const text of texts) {
    const accepted = once(sender, "accepted");
    sender.send({body: text});
    await accepted;
  }
}

test("rhea: each receiver of a topic gets a copy", () => connected(async (connection) => {
  const receivers = [1, 2].map((number) => connection.open_receiver({name: `r${number}`, source: "topic://prices"}));
  await Promise.all(receivers.map((receiver) => once(receiver, "receiver_open")));
  const all = receivers.map((receiver) => bodies(receiver, 2));
  await send(connection, "topic://prices", "1", "2");
  assert.deepEqual(await Promise.all(all), [["1", "2"], ["1", "2"]]);
}));

test("rhea: a receiver gets as many messages as it has credit for", () => connected(async (connection) => {
  await send(connection, "few", "1", "2", "3");
  const receiver = connection.open_receiver({source: "few", credit_window: 0});
  await once(receiver, "receiver_open");
  const got = [];
  receiver.on("message", (context) => got.push(context.message.body));
  receiver.add_credit(2);
  while (got.length < 2) await once(receiver, "message");
  // A message beyond the credit would come before the answers to this.
  await send(connection, "others", "x");
  assert.deepEqual(got, ["1", "2"]);
  receiver.add_credit(1);
  while (got.length < 3) await once(receiver, "message");
  assert.deepEqual(got, ["1", "2", "3"]);
}));
