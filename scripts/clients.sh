#!/usr/bin/env bash
# The tests use clients that other programs come with: Mosquitto's tools, and Qpid JMS. Use those that are there, else
# install them where that can be done. Argument: the folder of the virtual environment's programs.
set -euo pipefail
programs=$1

without() {
  echo "$1 are missing, so their tests are left out: $2" >&2
}

if ! command -v mosquitto_pub >/dev/null; then
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || ! {
    echo "the tests of MQTT use Mosquitto's tools: installing them with apt-get"
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends mosquitto-clients >/dev/null
  }; then
    without "Mosquitto's tools" "install them (on Debian or Ubuntu: sudo apt-get install mosquitto-clients)"
  fi
fi
if ! command -v mvn >/dev/null; then
  without "the jars of Qpid JMS" "install Maven, or run: $programs/mqlab systems install embedded:driver=jms"
elif ! "$programs/mqlab" systems install embedded:driver=jms >/dev/null; then
  without "the jars of Qpid JMS" "Maven could not get them"
fi
