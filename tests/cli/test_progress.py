"""What the bars say of a run that is under way."""

import pytest

from mqlab.cli.terminal.progress import ProgressBars
from mqlab.runner.conductor import Progress


@pytest.mark.parametrize(
    ("phase", "seconds", "words"),
    [
        ("measure", 2.5, "3 of 9: A, measure (2.5 s)"),
        ("warm-up", 1.0, "3 of 9: A, warm-up (1 s)"),
        ("measure", 0.0, "3 of 9: A, measure"),
        ("drain", 30.0, "3 of 9: A, drain"),
    ],
)
def test_a_phase_has_its_length_where_it_is_known(phase: str, seconds: float, words: str) -> None:
    bars = ProgressBars()
    bars.update_load(Progress(2, 9, "A", phase, seconds))
    (task,) = bars._bars.tasks
    assert task.fields["detail"] == words
