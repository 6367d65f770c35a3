"""A broker that somebody else runs, and passwords that nobody reads."""

import asyncio
from pathlib import Path

import pytest
import uvloop

from mqlab.systems import Running, SystemFailedError, SystemSettingError, system
from mqlab.systems.external import External
from mqlab.systems.secrets import mask_text

TEXT = "external:driver=stomp,address=tcp:127.0.0.1:{port},user=me,password=s3cr=t,syncs=before"


def started(text: str) -> Running:
    """On a machine where something listens."""

    async def main() -> Running:
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            running = await system(text.format(port=port)).start(Path("nowhere"))
            assert running.address == f"tcp:127.0.0.1:{port}"
            assert (await running.sample(), await running.empty()) == ({}, True)
            await running.stop()
            return running
        finally:
            server.close()
            await server.wait_closed()

    return uvloop.run(asyncio.wait_for(main(), 240))


class TestSecrets:
    def test_nothing_that_is_shown_has_them(self) -> None:
        one = system(TEXT.format(port=1))
        assert one.label == "external:driver=stomp,address=tcp:127.0.0.1:1,user=me,password=***,syncs=before"
        assert "s3cr" not in str(one.describe())
        assert one.describe()["settings"]["password"] == "***"

    @pytest.mark.parametrize("wrong", ["", "=again", "user=you", "syncs=perhaps", "line=fast", "password=x"])
    def test_nor_what_is_said_of_a_mistake(self, wrong: str) -> None:
        with pytest.raises(SystemSettingError) as caught:
            system(f"{TEXT},{wrong or 'colour'}")
        assert "s3cr" not in str(caught.value)

    def test_other_words_for_them(self) -> None:
        text = "jms:PASSCODE=a b'c,client.secret=d=e:f,user=g,auth_token=,path=h,ssl.keystore.password=i"
        assert mask_text(text) == (
            "jms:PASSCODE=***,client.secret=***,user=g,auth_token=***,path=h,ssl.keystore.password=***"
        )


class TestRunning:
    def test_the_library_of_its_clients_is_known_before_it_is_reached(self) -> None:
        assert system("external:driver=jms,address=tcp:127.0.0.1:1,jars=/lib/theirs").jars == "/lib/theirs"
        assert system(TEXT).jars == ""

    def test_it_may_have_a_shorter_name(self) -> None:
        running = started(f"{TEXT},label=ours")
        assert "label" not in running.options
        assert system(f"{TEXT},label=ours").label == "ours"

    @pytest.mark.parametrize(("text", "bits"), [("100Mbit", 1e8), ("2.5Gbit", 2.5e9)])
    def test_its_owner_may_say_how_fast_the_line_is(self, text: str, bits: float) -> None:
        running = started(f"{TEXT},line={text}")
        assert running.network_bits_per_s == bits
        assert "line" not in running.options

    def test_all_but_the_address_is_for_the_driver(self) -> None:
        running = started(TEXT)
        assert dict(running.options) == {"user": "me", "password": "s3cr=t"}
        assert running.pid is None

    def test_a_password_of_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        text = TEXT.replace("s3cr=t", "env:BROKER_PASSWORD")
        with pytest.raises(SystemFailedError, match="password: there is no BROKER_PASSWORD in the environment"):
            started(text)
        monkeypatch.setenv("BROKER_PASSWORD", "from there, with a comma")
        assert started(text).options["password"] == "from there, with a comma"

    def test_names_are_new_each_time_since_it_may_have_old_messages(self) -> None:
        assert started(TEXT).tag != started(TEXT).tag

    @pytest.mark.parametrize("address", ["tcp:127.0.0.1:1", "unix:/no/such/socket"])
    def test_nobody_there(self, address: str) -> None:
        with pytest.raises(SystemFailedError, match=f"external: nothing answers at {address}: "):
            uvloop.run(External({"driver": "stomp", "address": address}).start(Path("nowhere")))

    def test_an_address_that_only_its_driver_understands(self) -> None:
        running = uvloop.run(External({"driver": "jms", "address": "(nio://a:1)?b"}).start(Path("nowhere")))
        assert running.address == "(nio://a:1)?b"


class TestSettings:
    def test_what_is_needed(self) -> None:
        with pytest.raises(SystemSettingError, match="there is no address: write external:driver=NAME"):
            system("external:driver=stomp")
        with pytest.raises(SystemSettingError, match="there is no driver"):
            system("external:address=tcp:127.0.0.1:1")

    def test_without_any_it_is_only_in_the_list(self) -> None:
        one = system("external")
        assert one.missing().startswith("say which one: external:driver=NAME")
        with pytest.raises(SystemFailedError, match="say which one"):
            uvloop.run(one.start(Path("nowhere")))

    def test_a_point_cannot_change_them(self) -> None:
        one = system(TEXT.format(port=1))
        assert one.with_settings({}) is one
        with pytest.raises(SystemSettingError, match=r"cannot be changed \(sync=off\)"):
            one.with_settings({"sync": "off"})

    def test_its_owner_says_whether_it_syncs(self) -> None:
        assert system(TEXT.format(port=1)).durability().syncs == "before confirming"
        assert system("external").durability().syncs == "unknown"
