"""The page of `mqlab serve`: the runs of a folder, their reports, and the runs that are in progress.

It reads run folders and live logs, and computes no figure. A running lab is another process.
"""
