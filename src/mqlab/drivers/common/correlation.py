"""Selectors for the replies to one requester, on a queue that many share."""

import re


def prefix_of(correlation_id: str) -> str:
    """What all correlation ids of one requester begin with: all before the number at the end."""
    return re.sub(r"[0-9]+\Z", "", correlation_id)


def selector_for(prefix: str, correlation_id: str) -> str:
    """For all that begin with the prefix; without one, or with one that LIKE would misread, for this id alone."""
    if not prefix or "%" in prefix or "_" in prefix:
        quoted = correlation_id.replace("'", "''")
        return f"JMSCorrelationID = '{quoted}'"
    quoted = prefix.replace("'", "''")
    return f"JMSCorrelationID LIKE '{quoted}%'"
