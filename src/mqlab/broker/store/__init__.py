"""What survives: journal files, group commit, recovery. The only place of the broker that touches the disk.

Every write, sync and removal goes through `files`, so that a trace can prove their order and a test can fail them.
It knows no socket and no protocol, and decides nothing about messages.
"""
