"""`mqlab broker`: the embedded broker as a server."""

import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from mqlab.broker.server.listen import BrokerFailedError, serve
from mqlab.broker.settings import SettingError, Settings
from mqlab.broker.store.lock import FolderInUseError
from mqlab.broker.store.recovery import DamagedJournalError
from mqlab.cli.console import Exit, fail
from mqlab.wire.address import Address, BadAddressError

_DEFAULTS = Settings()


def broker(
    data: Annotated[
        Path | None, typer.Option(help="Folder for persistent messages. Without it, a persistent send is refused.")
    ] = None,
    listen: Annotated[
        list[str], typer.Option(help="tcp:HOST:PORT (port 0: a free one) or unix:PATH; may be repeated.")
    ] = list(_DEFAULTS.listen),  # noqa: B006 - typer reads it once
    open_to_network: Annotated[bool, typer.Option(help="Allow addresses that other machines can reach.")] = False,
    sync: Annotated[str, typer.Option(help="on: confirm when the disk has it. off: a power failure loses it.")] = "on",
    disk_marks: Annotated[
        int, typer.Option(help="Imitate a turning disk: syncs complete at so many marks a second (0: no).")
    ] = 0,
    queue_limit: Annotated[
        int, typer.Option(help="Bytes of one queue above which producers are held back.")
    ] = _DEFAULTS.queue_limit,
    memory_limit: Annotated[int, typer.Option(help="The same for the whole broker.")] = _DEFAULTS.memory_limit,
    producer_window: Annotated[
        int, typer.Option(help="Bytes a producer may send ahead.")
    ] = _DEFAULTS.producer_window,
    file_trace: Annotated[
        Path | None, typer.Option(help="Write every call of the file layer to this file, for proofs.")
    ] = None,
) -> None:
    """Run the embedded broker until Ctrl-C or SIGTERM. The addresses are printed when it is ready."""
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    try:
        settings = Settings(
            data=data, listen=tuple(listen), open_to_network=open_to_network, sync=sync,  # type: ignore[arg-type]
            disk_marks=disk_marks, queue_limit=queue_limit, memory_limit=memory_limit,
            producer_window=producer_window, file_trace=file_trace,
        )  # fmt: skip
        serve(settings, _announce)
    except (SettingError, BadAddressError) as error:
        fail(str(error), Exit.USAGE)
    except (FolderInUseError, DamagedJournalError, BrokerFailedError, OSError) as error:
        fail(str(error), Exit.SYSTEM_UNAVAILABLE)


def _announce(addresses: list[Address]) -> None:
    for address in addresses:
        print(f"listening on {address}", flush=True)
