"""The native protocol: frames to commands of the core, effects of the core to frames."""
