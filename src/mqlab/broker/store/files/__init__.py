"""The file layer: calls to the disk, disk space, the lock of the data folder, checksums."""
