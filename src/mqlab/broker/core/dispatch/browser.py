"""Browsing: a browser is sent the messages of a queue and removes none."""

from functools import partial
from typing import Final

import numpy as np

from mqlab.broker import limits
from mqlab.broker.core.context import Effects
from mqlab.broker.core.dispatch.selection import chosen
from mqlab.broker.core.effects import BrowseEnded, Continue, Deliver
from mqlab.broker.core.model.browser_position import BrowserPosition
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.sessions import CoreConsumer
from mqlab.wire.native.payload import RowIndex

# The cost of a span in a slice with a selector; and the bytes shown that cost as much as a span.
_SELECTED: Final = 16
_BYTES: Final = 4096


def add_credit(consumer: CoreConsumer, messages: int, effects: Effects) -> None:
    """A consumer gets messages, a browser is shown them, as long as it has credit."""
    if consumer.browser is None:
        consumer.queue.add_credit(consumer, messages)
        return
    consumer.credit += messages
    if not consumer.browser.is_due:
        _show(consumer, effects)


def _show(consumer: CoreConsumer, effects: Effects) -> None:
    """Show one slice."""
    browser, budget = consumer.browser, limits.SLICE
    assert browser is not None
    browser.is_due = False
    while budget > 0:
        if browser.closed or consumer.paused:
            return
        span = browser.next_span()
        if span is None:
            effects.append(BrowseEnded(consumer))
            return
        budget -= 1 if consumer.selector is None else _SELECTED
        last, rows = span.last_id, _rows_to_show(browser, span, consumer)
        if len(rows) and consumer.credit <= 0:
            return
        if len(rows) > consumer.credit:
            rows = rows[: consumer.credit]
            last = span.base + int(rows[-1])
        if len(rows):
            shown = span.of_rows(rows)
            effects.append(Deliver(consumer, consumer.next_delivery, shown))
            consumer.next_delivery += shown.rows
            consumer.credit -= shown.rows
            budget -= shown.size // _BYTES
        browser.pass_rows(span, last)
    browser.is_due = True
    effects.append(Continue(partial(_show, consumer, effects)))


def _rows_to_show(browser: BrowserPosition, span: Span, consumer: CoreConsumer) -> RowIndex:
    if span.last_id <= browser.passed or not consumer.queue.drop_expired(span):
        return range(0)
    selector = consumer.selector
    if selector is None and browser.passed < span.first_id and span.last_id < browser.end:
        return span.index
    rows = np.asarray(span.index)
    flags = (rows + span.base > browser.passed) & (rows + span.base < browser.end)
    return rows[flags if selector is None else flags & chosen(selector, span)]
