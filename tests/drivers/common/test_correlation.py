import pytest

from mqlab.drivers.common.correlation import prefix_of, selector_for


@pytest.mark.parametrize(("correlation_id", "selector"), [
    ("3-17", "JMSCorrelationID LIKE '3-%'"),
    ("it's-1", "JMSCorrelationID LIKE 'it''s-%'"),
    ("17", "JMSCorrelationID = '17'"),
    ("a_b-1", "JMSCorrelationID = 'a_b-1'"),
    ("50%-1", "JMSCorrelationID = '50%-1'"),
    ("o'clock_1", "JMSCorrelationID = 'o''clock_1'"),
])  # fmt: skip
def test_a_selector_for_the_replies_to_one_requester(correlation_id: str, selector: str) -> None:
    assert selector_for(prefix_of(correlation_id), correlation_id) == selector
