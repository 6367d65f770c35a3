import resource
import subprocess
import sys


def test_the_limit_is_raised_as_far_as_allowed_and_inherited() -> None:
    """In a process of its own: that of the tests keeps its limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    inner = "import resource; print(*resource.getrlimit(resource.RLIMIT_NOFILE))"
    program = f"""
import resource, subprocess, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (100, {hard}))
from mqlab.runner.machine import raise_file_limit
raise_file_limit()
raise_file_limit()
subprocess.run([sys.executable, "-c", {inner!r}], check=True)
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.split() == [str(hard), str(hard)]
