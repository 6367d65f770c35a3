// A broker for tests: `pip install mqlab` brings the program. MQLAB names another one.
import {spawn} from "node:child_process";
import {mkdtempSync, rmSync} from "node:fs";
import {tmpdir} from "node:os";
import {join} from "node:path";
import {createInterface} from "node:readline";

export async function startBroker() {
  const folder = mkdtempSync(join(tmpdir(), "mqlab-"));
  const [program, ...options] = (process.env.MQLAB ?? "mqlab").split(" ");
  const broker = spawn(program, [...options, "broker", `--data=${folder}`, "--sync=off", "--listen=tcp:127.0.0.1:0"], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise((resolve) => broker.once("exit", resolve));
  const port = await new Promise((resolve, reject) => {
    broker.once("error", reject);
    ended.then(() => reject(new Error("the broker did not start")));
    createInterface(broker.stdout).once("line", (line) => resolve(Number(line.split(":").at(-1))));
  });
  const stop = async () => {
    broker.kill();
    await ended;
    rmSync(folder, {recursive: true});
  };
  return {host: "127.0.0.1", port, stop};
}
