#!/usr/bin/env bash
# A virtual environment with pip. Debian ships python3 without the venv module: get it where that can be done.
set -euo pipefail
python=$1 venv=$2

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "mqlab needs Python 3.11 or later; $python is $("$python" --version 2>&1). Name another: make PYTHON=python3.12 ..." >&2
  exit 1
}
[ -x "$venv/bin/pip" ] && exit 0
if ! "$python" -c 'import ensurepip' 2>/dev/null; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "this Python has no venv module: installing python3-venv with apt-get"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv >/dev/null
  else
    echo "this Python has no venv module: install it (on Debian or Ubuntu: sudo apt-get install python3-venv)." >&2
    exit 1
  fi
fi
"$python" -m venv "$venv"
