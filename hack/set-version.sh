#!/usr/bin/env bash
# Writes a version into the chart, the manifests, their tests and the docs, in place of the one they name:
#
#   hack/set-version.sh 1.2.3
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ $# -ne 1 || ! $1 =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]]; then
	echo "hack/set-version.sh: want one argument, a semantic version without a v, such as 1.2.3 or 1.2.3-rc.1, got \"$*\"" >&2
	exit 1
fi
old=$(awk '$1 == "version:" {print $2}' manifests/chart/Chart.yaml)

git grep -zlF "$old" -- README.md docs manifests test/manifests |
	xargs -0 sed -Ei "s/(^|[^0-9.])${old//./\\.}([^0-9]|\$)/\1$1\2/g"
make manifests
