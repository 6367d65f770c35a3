"""Parts that several drivers share: transports, futures, inbox, timeouts, barriers, confirmation counter, selectors."""
