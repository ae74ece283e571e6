#!/usr/bin/env bash
# Puts OpenSSH's server there, which the tests in this folder push node agents to, and an account that it lets in by key
# only (as root, the tests need one that is not root). Starts no server; nothing when both are there.
set -euo pipefail
account=hopline-ssh
if ! [ -x /usr/sbin/sshd ]; then
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "/usr/sbin/sshd is missing: install it (Debian: sudo apt-get install openssh-server)" >&2
    exit 1
  fi
  export DEBIAN_FRONTEND=noninteractive
  apt-get update --quiet=2
  # Only its files are wanted: no server may be started for everybody to sign in at.
  ln -s /dev/null /etc/systemd/system/ssh.service 2>/dev/null || true
  apt-get install --yes --quiet=2 --no-install-recommends openssh-server
fi
if [ "$(id -u)" -eq 0 ] && ! id "$account" >/dev/null 2>&1; then
  useradd --system --shell /bin/sh --home-dir /nonexistent "$account"
  usermod --password '*' "$account"
fi
