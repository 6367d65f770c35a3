"""A report says which points share their runs."""

from mqlab.report.exhibits.run_tables import switching_notes


def test_each_system_has_one_sentence() -> None:
    entries = [
        {"system": "embedded", "scenario": "A", "slice_s": 0.4},
        {"system": "embedded", "scenario": "B", "slice_s": 0.4},
        {"system": "embedded:sync=off", "scenario": "A", "slice_s": 0.4},
    ]
    first, second = switching_notes(entries)
    assert first.startswith("In A and B the lab switched embedded between the settings of points every 0.4 s of a run:")
    assert second.startswith("In A the lab switched embedded:sync=off ")
    assert switching_notes([]) == []
