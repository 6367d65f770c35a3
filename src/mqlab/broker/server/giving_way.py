"""Who has said much lets others be heard first: the loop goes on to read one connection as long as it says anything."""

import asyncio


def give_way(transport: asyncio.Transport) -> None:
    """It is read again with the next turn of the loop."""
    transport.pause_reading()
    asyncio.get_running_loop().call_soon(transport.resume_reading)
