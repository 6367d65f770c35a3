import json

import typer
from typer.testing import CliRunner, Result

from mqlab.cli.studies import studies
from mqlab.study import built_in_studies


def run(*arguments: str) -> Result:
    app = typer.Typer()
    app.command()(studies)
    return CliRunner().invoke(app, list(arguments))


def test_the_list_as_json() -> None:
    found = json.loads(run("--json").stdout)["studies"]
    assert [study["study"] for study in found] == built_in_studies()
    ours = next(study for study in found if study["study"] == "jms-four-brokers")
    assert list(ours["scenarios"]) == [*"ABCDEFGH", "open-loop"]
    assert (ours["published_values"], len(ours["systems_published"])) == (37, 4)


def test_the_list_for_people() -> None:
    result = run()
    assert result.exit_code == 0
    shown = " ".join(result.stdout.split())
    assert "jms-four-brokers HornetQ, ActiveMQ, SwiftMQ and OpenMQ through JMS A B C D E F G H" in shown
    assert "mqlab plan FILE" in result.stderr
