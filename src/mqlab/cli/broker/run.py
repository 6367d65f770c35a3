"""`mqlab broker`: run the embedded broker as a server."""

import inspect
import logging
import sys
from pathlib import Path

import typer

from mqlab.broker.config import settings_from
from mqlab.broker.server.startup import BrokerFailedError, serve
from mqlab.broker.settings import SettingError, Settings
from mqlab.broker.store.files.lock import FolderInUseError
from mqlab.broker.store.recovery.recovery import DamagedJournalError
from mqlab.cli.broker.common.setting_options import ConfigOption, OptionValue, option_name, parameters, parse_options
from mqlab.cli.terminal.console import Exit, fail
from mqlab.hidden_pandas import hide_pandas
from mqlab.wire.address import Address, BadAddressError


def run_server(context: typer.Context, config: Path | None = None, **given: OptionValue) -> None:
    """Run the embedded broker until Ctrl-C or SIGTERM. A command administers a running broker or a broker's files.

    The broker prints its addresses when it is ready. Every option has an environment variable: MQLAB_BROKER_QUEUE_LIMIT
    sets --queue-limit.
    """
    if context.invoked_subcommand is not None:
        _refuse_options(context)
        return
    values = parse_options(given)
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    hide_pandas()
    try:
        serve(Settings.flat(**values) if config is None else settings_from(config, values), _announce)
    except (SettingError, BadAddressError) as error:
        fail(str(error), Exit.USAGE)
    except (FolderInUseError, DamagedJournalError, BrokerFailedError, OSError) as error:
        fail(str(error), Exit.SYSTEM_UNAVAILABLE)


_CONFIG = inspect.Parameter("config", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=ConfigOption)
_CONTEXT = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
run_server.__signature__ = inspect.Signature([_CONTEXT, _CONFIG, *parameters()])  # type: ignore[attr-defined] # not in typeshed


def _refuse_options(context: typer.Context) -> None:
    """Fail on an option of the server before a command: it would have no effect there."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            fail(
                f"{option_name(name)} is an option for starting a broker, not for `{context.invoked_subcommand}`",
                Exit.USAGE,
            )


def _announce(addresses: list[Address]) -> None:
    for address in addresses:
        print(f"listening on {address}", flush=True)
