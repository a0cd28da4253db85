#!/usr/bin/env bash
# Copyright The Plimsoll Authors.
# SPDX-License-Identifier: Apache-2.0

# Writes the zz_generated.*.go files of the plugins' arguments, and their schema in the chart. go.mod pins the generators as tools, so the result depends
# only on the checkout. Once the module cache is filled, nothing is fetched.

set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Never rewrite go.mod, and never fetch another toolchain.
export GOFLAGS="${GOFLAGS:-} -mod=readonly"
export GOTOOLCHAIN="local"
# Neither the developer's go.work nor the sort order of the locale may change the result.
export GOWORK="off"
export LC_ALL="C"

readonly header="hack/boilerplate.go.txt"
readonly internal="./apis/config"
readonly versioned="./apis/config/v1"

go tool deepcopy-gen \
  --go-header-file "${header}" --output-file zz_generated.deepcopy.go "${internal}" "${versioned}"
go tool defaulter-gen \
  --go-header-file "${header}" --output-file zz_generated.defaults.go "${versioned}"
go tool conversion-gen \
  --go-header-file "${header}" --output-file zz_generated.conversion.go "${versioned}"

go run ./hack/argsschema
