"""The store: journal files, group commit, page files, recovery. The only part of the broker that touches the disk.

Every write, sync and removal goes through `files`, so that a trace can prove their order and a test can make them fail.
The store knows no socket and no protocol, and decides nothing about messages. A failed assertion in the journal
ends it like a failed disk: the broker stops before it confirms anything else.
"""
