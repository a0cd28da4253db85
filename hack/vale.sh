#!/usr/bin/env bash
# Checks prose with Vale: Markdown, comments and messages of Go and of pages, the chart, scripts. Arguments are folders; the
# default is everything.
set -euo pipefail
cd "$(dirname "$0")/.."

(cd hack/tools/vale && CGO_ENABLED=1 CGO_CFLAGS=-w go build -o ../../../bin/vale github.com/vale-cli/vale/v3/cmd/vale)
git ls-files -z --cached --others --exclude-standard -- "$@" |
	{ grep -zE '\.(go|js|gohtml|md|sh|tpl)$|^manifests/.*\.(yaml|txt)$|^(\.github|\.golangci).*\.ya?ml$' || true; } | # none is no error
	{ grep -zvE 'zz_generated|\.min\.js$|/testdata/|^manifests/(second-scheduler|stopgap/stopgap|openshift/(rbac|configmap|secondaryscheduler)|default-scheduler/(rbac|config))\.yaml$' || true; } |
	xargs -0 -r sh -c 'for f; do [ -e "$f" ] && printf "%s\0" "$f"; done' sh | xargs -0 -r bin/vale --output line
