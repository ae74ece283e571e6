#!/usr/bin/env bash
# A CI job that upgrades a cluster: plan, start or join the upgrade, wait for its end.
#
#   upgrade.sh NAME NAMESPACE VERSION
#
# Needs `hopline` on the PATH and the address of a Temporal service: TEMPORAL_ADDRESS, or a profile in the file that
# TEMPORAL_CONFIG_FILE names (TEMPORAL_PROFILE). No kubeconfig: the worker has one. Further variables:
#   UPGRADE_TIMEOUT  how long to wait (default 2h); the upgrade goes on after it
#   UPGRADE_REPORTS  folder for plan.json and upgrade.json, to be kept with the job (default: upgrade-reports)
#
# Exit codes are those of `hopline upgrade`: 0 done, 1 failed or aborted, 2 usage, 3 refused (nothing has changed),
# 4 held and waiting for a person, 5 not over in time. Run it again at will: it joins the upgrade that is running.
set -uo pipefail

if [ "$#" -ne 3 ]; then
  echo "usage: $0 NAME NAMESPACE VERSION" >&2
  exit 2
fi
name=$1 namespace=$2 version=$3
timeout=${UPGRADE_TIMEOUT:-2h} reports=${UPGRADE_REPORTS:-upgrade-reports}
mkdir -p "$reports" || exit 2

echo "== plan of $namespace/$name to $version"
hopline plan "$name" -n "$namespace" --to "$version" -o json >"$reports/plan.json"
code=$?
if [ "$code" -ne 0 ]; then
  echo "not startable, nothing has changed (exit code $code): see $reports/plan.json" >&2
  exit "$code"
fi

echo "== upgrade of $namespace/$name to $version, for at most $timeout"
hopline upgrade "$name" -n "$namespace" --to "$version" \
  --wait --timeout "$timeout" --on-failure fail -o json >"$reports/upgrade.json"
code=$?

case $code in
  0) echo "== done: $namespace/$name is at $version" ;;
  1) echo "== failed; what was taken is given back, what is done stays done. Repair the cause, then run this job again" >&2 ;;
  3) echo "== refused, nothing has changed: the reason is above" >&2 ;;
  # Only a run that somebody else has started with --on-failure hold waits for a person.
  4) echo "== held: repair the cause, then: hopline retry $name -n $namespace, or: hopline abort $name -n $namespace" >&2 ;;
  5) echo "== not over after $timeout; the upgrade goes on, this job may be run again to wait for it" >&2 ;;
  *) echo "== ended with exit code $code" >&2 ;;
esac
exit "$code"
