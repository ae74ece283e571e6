"""What runs on a node while its agent is replaced: POSIX shell scripts, each of which may be cut off anywhere.

Beside the binary there are at most, and after an end none but the first:

- `<binary>.bak.hopline`: the agent before the last push; `cp` it back by hand in need;
- `<binary>.hopline-new.*`: uploads that are not complete;
- `<binary>.hopline-staged`: one that is, checked by its hash;
- `<binary>.hopline-pending`: the hash before a push that nobody has confirmed; `-` where no agent was.

The installed binary is only ever replaced by a rename. Whoever renames holds a lock on the folder meanwhile, so that an
attempt whose worker is believed dead cannot interfere. `trap '' HUP PIPE`: a script that has begun to change something
ends, whether its connection lives or not.
"""

from __future__ import annotations

_SUM = 'sum() { if [ -f "$1" ]; then sha256sum <"$1" | cut -d" " -f1; fi; }\n'

_LOCK = """
trap '' HUP PIPE
exec 9<"$(dirname "$bin")"
flock -w 60 9 || { echo "another push holds the agent of this node" >&2; exit 31; }
"""

LOOK = (
    _SUM
    + """
bin=$1 unit=$2
echo "machine=$(uname -m)"
echo "installed=$(sum "$bin")"
pid=$(systemctl show -p MainPID --value "$unit" 2>/dev/null)
case $pid in ''|0|*[!0-9]*) ;; *) echo "running=$(sha256sum <"/proc/$pid/exe" 2>/dev/null | cut -d' ' -f1)" ;; esac
echo "active=$(systemctl is-active "$unit" 2>/dev/null)"
echo "pending=$(cat "$bin.hopline-pending" 2>/dev/null)"
echo "staged=$(sum "$bin.hopline-staged")"
echo "free_kib=$(df -Pk "$(dirname "$bin")" | awk 'NR == 2 { print $4 }')"
"""
)
"""Arguments: binary, unit. Prints `AgentState`; changes nothing."""

UPLOAD = (
    _SUM
    + """
bin=$1 want=$2 size=$3
umask 077
rm -f "$bin".hopline-new.*
free=$(df -Pk "$(dirname "$bin")" | awk 'NR == 2 { print $4 }')
need=$((size / 1024 + 1024))
case $free in
  *[!0-9]*|'') ;;
  *) [ "$free" -ge "$need" ] || { echo "no space left: $need KiB are needed, $free KiB are free" >&2; exit 28; } ;;
esac
new=$(mktemp "$bin.hopline-new.XXXXXX") || exit 29
trap 'rm -f "$new"' EXIT
trap 'exit 1' HUP INT TERM PIPE
cat >"$new" || exit 29
got=$(sum "$new")
[ "$got" = "$want" ] || { echo "$(wc -c <"$new") of $size bytes came" >&2; exit 30; }
chmod 755 "$new" && sync && mv -f "$new" "$bin.hopline-staged"
"""
)
"""Arguments: binary, hash, bytes; reads the file. 28 no space, 29 could not write, 30 not the bytes that were sent."""

REPLACE = (
    _SUM
    + """
bin=$1 want=$2
"""
    + _LOCK
    + """
old=$(sum "$bin")
[ "$old" != "$want" ] || exit 0
[ "$(sum "$bin.hopline-staged")" = "$want" ] || { echo "the upload is gone" >&2; exit 32; }
if ! [ -s "$bin.hopline-pending" ]; then
  if [ -n "$old" ]; then
    rm -f "$bin.bak.hopline"
    ln "$bin" "$bin.bak.hopline" || cp -p "$bin" "$bin.bak.hopline" || exit 33
  fi
  echo "${old:--}" >"$bin.hopline-new.pending" && mv -f "$bin.hopline-new.pending" "$bin.hopline-pending" || exit 33
fi
mv -f "$bin.hopline-staged" "$bin" && sync
"""
)
"""Arguments: binary, hash. What was there before is kept, except where it was never confirmed itself."""

RESTART = (
    """
bin=$1 unit=$2
"""
    + _LOCK
    + """
systemctl restart "$unit" 9<&-
"""
)
"""Arguments: binary, unit."""

CONFIRM = (
    """
bin=$1
"""
    + _LOCK
    + """
rm -f "$bin.hopline-pending" "$bin.hopline-staged" "$bin".hopline-new.*
"""
)
"""Arguments: binary. The new agent has answered."""

RESTORE = (
    _SUM
    + """
bin=$1 unit=$2 want=$3
"""
    + _LOCK
    + """
old=$(cat "$bin.hopline-pending" 2>/dev/null)
[ -n "$old" ] || { echo "nothing was replaced" >&2; exit 34; }
if [ "$old" = - ]; then
  systemctl stop "$unit" 9<&-
  rm -f "$bin"
elif [ "$(sum "$bin")" != "$old" ]; then
  [ "$(sum "$bin.bak.hopline")" = "$old" ] || { echo "$bin.bak.hopline is not what was there before" >&2; exit 35; }
  if cp -p "$bin.bak.hopline" "$bin.hopline-new.old"; then
    mv -f "$bin.hopline-new.old" "$bin" || exit 33
  else
    rm -f "$bin.hopline-new.old"
    mv -f "$bin.bak.hopline" "$bin" || exit 33
  fi
  sync
fi
if [ "$old" != - ]; then systemctl restart "$unit" 9<&- || exit 36; fi
rm -f "$bin.hopline-pending" "$bin.hopline-staged" "$bin".hopline-new.*
echo "restored=$old"
"""
)
"""Arguments: binary, unit, hash that was refused. 36: the old binary is back, and its unit does not start either."""
