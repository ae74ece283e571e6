#!/usr/bin/env bash
# Puts Debian's Chromium and its WebDriver there, which the tests in this folder drive; nothing when they are there.
set -euo pipefail
if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then
  exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "chromium and chromedriver are missing: install them (Debian: sudo apt-get install chromium chromium-driver)" >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update --quiet=2
apt-get install --yes --quiet=2 --no-install-recommends chromium chromium-driver
