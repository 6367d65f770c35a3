"""Load from many machines: the agents of a run are the tasks of one barrier stage of a Spark cluster.

The conductor starts the stage through a process of its own. Each task connects back, and plays roles until the end.
"""
