"""The commands of `mqlab`, one file each. A command reads options, calls other packages and prints the result.

Data goes to stdout, messages and progress go to stderr; console.py has both and the exit codes. Commands contain no
logic of their own.
"""
