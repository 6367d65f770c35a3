"""Parts that several drivers share: socket transport, inbox, timeouts, barriers, confirmation counter, selectors."""
