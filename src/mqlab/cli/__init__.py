"""The commands of `mqlab`, one file each: they read options, call the packages below and print what comes back.

Data goes to stdout, words and progress to stderr; console.py holds both and the exit codes.
No command decides, measures or computes anything itself.
"""
