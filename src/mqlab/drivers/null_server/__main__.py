"""A null server as a process: `python -m mqlab.drivers.null_server PROTOCOL SIZE BATCH`; ends with its stdin."""

import asyncio
import sys

import uvloop

from mqlab.drivers.null_server import NULL_SERVERS


async def _serve(name: str, size: int, batch: int) -> None:
    kind, loop = NULL_SERVERS[name], asyncio.get_running_loop()
    server = await loop.create_server(lambda: kind(size, batch), "127.0.0.1", 0)
    print(f"listening on tcp:127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    uvloop.run(_serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
