"""Parts that several drivers share: transport, inbox, timeouts, barriers, confirmations."""
