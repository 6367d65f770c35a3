# ruff: noqa: A005 (the name that was promised; see below)
"""Selectors over columns, against row by row in Python: see `_selecting.py`.

Python looks beside a script for its modules first, so whatever in this folder imports the standard library's
`selectors` (asyncio does) finds this file. It then stands aside.
"""

import importlib.util
import sys
import sysconfig

if __name__ == "__main__":
    from _selecting import main

    main()
else:
    found = importlib.util.spec_from_file_location(__name__, f"{sysconfig.get_path('stdlib')}/selectors.py")
    assert found is not None
    assert found.loader is not None
    sys.modules[__name__] = importlib.util.module_from_spec(found)
    found.loader.exec_module(sys.modules[__name__])
