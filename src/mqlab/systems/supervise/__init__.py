"""Supervision: the processes of a system end with the lab, whatever the cause; and what they use of the machine."""
