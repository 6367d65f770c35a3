"""Parts that all commands share: output and exit codes, progress bars, interrupts, and the share of the pipeline's time."""
