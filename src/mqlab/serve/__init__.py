"""The page of `mqlab serve`: the runs of a folder, their reports, and the runs that are in progress.

It reads run folders and live logs; figures come from the pipeline and the report. A running lab is another process.
"""
