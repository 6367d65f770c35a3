"""The results of runs and comparisons as files for other programs: JUnit, CSV, OpenMessaging, HdrHistogram."""
