#!/usr/bin/env bash
# Copyright The Plimsoll Authors.
# SPDX-License-Identifier: Apache-2.0

# Writes the zz_generated.*.go files of the plugins' arguments. The generators are the tools that go.mod pins, so the
# result depends on the checkout alone, and once the module cache is filled nothing is fetched.

set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

# go.mod is read, never rewritten; the toolchain is the one at hand, never one that would have to be fetched.
export GOFLAGS="-mod=readonly"
export GOTOOLCHAIN="local"
# Neither a go.work of the developer's nor the locale's sort order may change the result.
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
