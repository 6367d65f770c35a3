"""Parts that all commands share: output and exit codes, progress bars, interrupts, the share of the pipeline."""
