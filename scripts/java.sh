#!/usr/bin/env bash
# Spark needs a Java runtime, 17 or later: use the one that is there, else install one where that can be done.
set -euo pipefail

major() { # of the java program given, or 0
  "$1" -version 2>&1 | sed -nE 's/.*version "([0-9]+).*/\1/p' | head -n 1 | grep . || echo 0
}

if [ -n "${JAVA_HOME:-}" ]; then
  java="$JAVA_HOME/bin/java"
else
  java=$(command -v java || true)
fi
if [ -n "$java" ] && [ -x "$java" ]; then
  found=$(major "$java")
  [ "$found" -ge 17 ] && exit 0
  echo "Spark needs Java 17 or later; $java is version $found. Point JAVA_HOME at a newer one." >&2
  exit 1
fi
if [ -n "${JAVA_HOME:-}" ]; then
  echo "JAVA_HOME is $JAVA_HOME, but there is no bin/java in it. Correct it, or unset it." >&2
  exit 1
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "Spark needs Java: installing openjdk-17-jre-headless with apt-get"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless >/dev/null
  exit 0
fi
echo "Spark needs Java 17 or later: install a Java runtime (on Debian or Ubuntu: sudo apt-get install openjdk-17-jre-headless), or set JAVA_HOME." >&2
exit 1
