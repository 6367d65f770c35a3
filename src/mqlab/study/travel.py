"""The three ways in which messages travel, in the words that tables, charts, documents and JSON use.

docs/decisions/0021-how-a-message-travels.md has the reasons.
"""

from typing import Final

# One call of the plain API for each message on both sides.
MESSAGE_BY_MESSAGE: Final = "message by message"
# The same, and the producer waits for each confirmation before it sends the next message.
CONFIRMED_ONE_BY_ONE: Final = "confirmed one by one"
# Several records in one message or batch that the application built.
PACKED: Final = "packed"


def way_of_travel(records: float, waits: float) -> str:
    """The way, from the recorded numbers of records in each message and of waits for each message."""
    if records > 1:
        return PACKED
    return CONFIRMED_ONE_BY_ONE if waits >= 1 else MESSAGE_BY_MESSAGE
