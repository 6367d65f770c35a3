"""A study from somebody else names no file outside its folder and the run's, and gives no program free text."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from mqlab.study import StudyError, load_study

Write = Callable[..., Path]

REFUSED = [
    "/etc/shadow", "//etc/shadow", "../x", "a/../../x", "~/.ssh/id_rsa", "a/./b", "a//b", "-x", "--config=/x", "a b",
    "1G -Dx=y", "1G;reboot", "$(reboot)", "`reboot`", '1G"', "1G'", "a\\b", "1G|x", "a&b", "a*", "a>b", "=x", "/",
]  # fmt: skip
ACCEPTED = ["off", "64KiB", "1.5", "75%", "queue:dead", "traces/calls.txt", "1+1", "a-b", "none", "x.y", "..a", ".x"]


def study(layer: str, value: str) -> str:
    """The setting stands in the last line but one, of the layer that holds it."""
    setting = f'settings: {{api_trace: ["no", "{value}"]}}'
    own = setting if layer == "scenario" else ""
    scenario = f"  A: {{queues: 1, producers: 1, consumers: 1, message: {{size: 12B}}, {own}}}\n"
    more = {
        "scenario": "",
        "defaults": f"defaults: {{{setting}}}\n",
        "scale": f"scales: {{quick: {{{setting}}}}}\n",
        "scenario of a scale": f"scales: {{quick: {{scenarios: {{A: {{{setting}}}}}}}}}\n",
    }[layer]
    return f"study: mine\ntitle: Mine\nscenarios:\n{scenario}{more}"


LAYERS = {"scenario": 4, "defaults": 5, "scale": 5, "scenario of a scale": 5}


@pytest.mark.parametrize("value", REFUSED)
def test_what_a_study_may_not_write_as_a_setting(write: Write, value: str) -> None:
    path = write(study("scenario", value.replace("\\", "\\\\").replace('"', '\\"')))
    with pytest.raises(
        StudyError, match=r"my\.yaml:4: scenarios\.A\.settings\.api_trace\.2: .* is not accepted; accepted"
    ):
        load_study(path)


@pytest.mark.parametrize("layer", LAYERS)
def test_every_layer_is_checked(write: Write, layer: str) -> None:
    with pytest.raises(StudyError, match=rf"my\.yaml:{LAYERS[layer]}: .*'/tmp/x' is not accepted; accepted in a study"):
        load_study(write(study(layer, "/tmp/x")))


@pytest.mark.parametrize("value", ACCEPTED)
def test_what_a_study_may_write(write: Write, value: str) -> None:
    assert load_study(write(study("scenario", value))).points("full")[1].settings == {"api_trace": value}


@pytest.mark.parametrize("value", ["trace_file=/etc/shadow", "sync=on,file_trace=../x", "memory=1G -Dx"])
def test_a_stand_in_is_checked_like_a_setting(write: Write, value: str) -> None:
    text = study("scenario", "yes") + f'systems: {{Q 1: []}}\nstand_ins:\n  Q 1: "embedded:{value}"\n'
    with pytest.raises(StudyError, match=re.escape("my.yaml:7: stand_ins.Q 1: '")):
        load_study(write(text))


def test_the_users_own_words_may_name_any_path(write: Write) -> None:
    assert load_study(write(study("scenario", "/tmp/x")), own=True).points("full")[1].settings["api_trace"] == "/tmp/x"


@pytest.mark.parametrize("key", ["claims", "published"])
def test_a_file_beside_the_study_is_no_link_out_of_its_folder(tmp_path: Path, key: str) -> None:
    folder = tmp_path / "study"
    folder.mkdir()
    (tmp_path / "secret").write_text("root:secret-of-root\n")
    (folder / "beside").symlink_to(tmp_path / "secret")
    (folder / "study.yaml").write_text(study("scenario", "yes") + f"{key}: beside\n")
    with pytest.raises(StudyError, match=rf"study\.yaml:5: {key}: beside leads out of the study's folder"):
        load_study(folder)


SECRETS = [
    "root:secret-of-root:1\n", "secret-of-root: x\nsecret-of-root: y\n", "a: *secret-of-root\n", "- secret-of-root\n",
    "!secret-of-root x\n", "%secret-of-root\n", "[secret-of-root\n", "secret-of-root\n",
    "'secret-of-root': {x: [1, 2\n", "password = 'secret-of-root'\n", "key: &secret-of-root x\n",
    "!secret-of-root!x y\n",
]  # fmt: skip


@pytest.mark.parametrize("content", SECRETS)
def test_an_error_prints_nothing_of_a_file_that_is_no_study(write: Write, content: str) -> None:
    with pytest.raises(StudyError) as refused:
        load_study(write(content))
    assert "secret" not in str(refused.value)
