"""Selectors for the replies to one requester on a reply queue that several requesters share."""

import re


def prefix_of(correlation_id: str) -> str:
    """Return the common prefix of a requester's correlation ids: the id without its trailing number."""
    return re.sub(r"[0-9]+\Z", "", correlation_id)


def selector_for(prefix: str, correlation_id: str) -> str:
    """Return a selector for all ids with the prefix, or for this id alone if LIKE cannot express the prefix."""
    if not prefix or "%" in prefix or "_" in prefix:
        quoted = correlation_id.replace("'", "''")
        return f"JMSCorrelationID = '{quoted}'"
    quoted = prefix.replace("'", "''")
    return f"JMSCorrelationID LIKE '{quoted}%'"
