"""The lab examines the machine: everything that would spoil a measurement, with its size and its cure.

Every check reads the machine or measures it for a moment; none changes it.
"""
