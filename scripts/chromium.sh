#!/usr/bin/env bash
# The tests open the pages in Chromium: use the one that is there, else install it where that can be done.
set -euo pipefail

for name in chromium chromium-browser google-chrome; do
  command -v "$name" >/dev/null && exit 0
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "the browser tests need Chromium: installing it with apt-get"
  if apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; then
    exit 0
  fi
fi
echo "Chromium is missing, so the browser tests are left out: install it (on Debian or Ubuntu: sudo apt-get install chromium)." >&2
