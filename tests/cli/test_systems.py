from .command import document, here


def test_the_list_as_json() -> None:
    result = here("systems", "--json")
    assert result.exit_code == 0
    (found,) = document(result.stdout)["systems"]
    assert found["name"] == "embedded"
    assert found["version"].startswith("mqlab ")
    assert (found["settings"]["sync"], found["settings"]["disk_marks"], found["stamps"]) == ("on", 0, [])


def test_the_list_for_people() -> None:
    result = here("systems")
    assert result.exit_code == 0
    assert "embedded" in result.stdout
    assert "sync=on" in result.stdout
    assert "\x1b" not in result.stdout
