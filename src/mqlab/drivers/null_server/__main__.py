"""Runs a null server: `python -m mqlab.drivers.null_server DRIVER SIZE BATCH`. It ends when its stdin is closed."""

import asyncio
import sys

import uvloop

from mqlab.drivers.null_server import NULL_SERVERS


async def _serve(driver: str, size: int, batch: int) -> None:
    null_server, loop = NULL_SERVERS[driver], asyncio.get_running_loop()
    server = await loop.create_server(lambda: null_server(size, batch), "127.0.0.1", 0)
    print(f"listening on tcp:127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    uvloop.run(_serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
