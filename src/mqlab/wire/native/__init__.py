"""The native protocol of the embedded broker: frames, and the payloads that they carry."""
