"""The embedded broker changes its live settings while it runs."""

from pathlib import Path

import pytest

from broker.server.raw_client import in_loop
from mqlab.client import aio
from mqlab.systems import SystemFailedError, SystemSettingError, system


@in_loop
async def test_monitoring_trace_and_read_out_are_switched(tmp_path: Path) -> None:
    base = system("embedded:monitoring=off").for_switching()
    running = await base.start(tmp_path / "data")
    try:
        requester = await aio.connect(running.address, application="Requester0")
        other = await aio.connect(running.address, application="Other")

        async def levels() -> tuple[str, set[str]]:
            traced = (await other.ask("trace"))["applications"]
            names = {f"{row['application']} {row['level']}" for row in traced}
            return (await other.status())["monitoring"], names

        assert await levels() == ("off", set())
        moments = await running.switch(base.with_settings({"monitoring": "high", "trace": "low"}))
        assert moments.asked < moments.confirmed
        assert await levels() == ("high", {"Requester0 low", "Other low"})
        one_pair = base.with_settings({"trace": "high", "traced": "1", "read_out": "yes"})
        await running.switch(one_pair)
        assert await levels() == ("off", {"Requester0 high"})
        await requester.ask("ping")
        await running.switch(base)
        assert await levels() == ("off", set())
        operations = await running.operations()
        assert operations is not None
        assert {"Requester0", "Other"} <= {*operations["application"].to_pylist()}
        assert await running.empty()
        await requester.close()
        await other.close()
    finally:
        await running.stop()


@in_loop
async def test_the_api_trace_is_off_until_it_is_switched_on(tmp_path: Path) -> None:
    base = system("embedded").with_settings({"api_trace": "no"}).for_switching()
    calls = tmp_path / "data.calls"
    running = await base.start(tmp_path / "data")
    try:
        other = await aio.connect(running.address, application="Other")
        await other.ask("ping")
        await running.switch(base.with_settings({"api_trace": "yes"}))
        await other.ask("ping")
        await running.switch(base)
        await other.ask("ping")
        await other.close()
    finally:
        await running.stop()
    asked = [line for line in calls.read_text().splitlines() if '"Other"\tin\tASK' in line]
    assert len(asked) == 1


@in_loop
async def test_a_broker_that_was_not_started_for_it_cannot_be_switched(tmp_path: Path) -> None:
    plain = system("embedded")
    running = await plain.start(tmp_path / "data")
    try:
        with pytest.raises(SystemFailedError, match="cannot be changed while it runs"):
            await running.switch(plain)
    finally:
        await running.stop()


def test_switching_writes_the_stanzas_itself(tmp_path: Path) -> None:
    file = tmp_path / "stanzas"
    file.write_text("")
    with pytest.raises(SystemSettingError, match="without trace_file"):
        system(f"embedded:trace_file={file}").for_switching()
