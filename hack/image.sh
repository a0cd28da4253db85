#!/usr/bin/env bash
# Builds the image with the first of docker, podman and buildah that works. The argument is the folder of prebuilt programs.
# Environment variables:
#   VERSION                   the version that the programs print
#   KUBERNETES                the minor version of Kubernetes
#   IMAGE                     the name of the image
#   PLATFORM                  for example linux/arm64; several are separated by commas
#   BASE, BINARIES, GO_IMAGE  see the Dockerfile
#   PINNED                    if set, BASE and, unless BINARIES=prebuilt, GO_IMAGE must be given by digest
#   BUILDER                   the program to build with, with its global flags
#   BUILD_FLAGS               further flags of the program's build command
set -euo pipefail
cd "$(dirname "$0")/.."

programs=${1%/}
: "${IMAGE:=plimsoll:${VERSION#v}-k8s$KUBERNETES}" "${PLATFORM:=linux/$(go env GOARCH)}" "${BINARIES:=build}"
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)

if [[ -n ${PINNED:-} ]]; then
	images=(BASE)
	if [[ $BINARIES != prebuilt ]]; then images+=(GO_IMAGE); fi
	for image in "${images[@]}"; do
		if [[ ${!image:-} != scratch && ! ${!image:-} =~ @sha256:[0-9a-f]{64}$ ]]; then
			echo "make image: PINNED is set, but $image is \"${!image:-}\": set $image=NAME@sha256:DIGEST" >&2
			exit 1
		fi
	done
fi

works() {
	case $1 in
	docker) docker info &>/dev/null ;; # docker needs its daemon
	*) "$1" --version &>/dev/null ;;
	esac
}

read -ra builder <<<"${BUILDER:-}"
if [[ ${#builder[@]} -eq 0 ]]; then
	for program in docker podman buildah; do
		if works "$program"; then
			builder=("$program")
			break
		fi
	done
fi
if [[ ${#builder[@]} -eq 0 ]]; then
	echo "make image: found neither docker (with its daemon running) nor podman nor buildah." >&2
	echo "Install one, for example with apt-get install buildah, or name one: make image BUILDER=/path/to/buildah" >&2
	exit 1
fi

what=(--tag "$IMAGE")
if [[ ${builder[0]} != *docker ]]; then
	if [[ $PLATFORM == *,* ]]; then
		what=(--manifest "$IMAGE")
	fi
	# Older versions do not know the platform on which they run, and would take the compiler's image of the other platform.
	what+=(--build-arg "BUILDPLATFORM=linux/$(go env GOHOSTARCH)")
fi
if [[ $BINARIES == prebuilt ]]; then
	if [[ $PLATFORM == *,* ]]; then
		echo "make image: BINARIES=prebuilt builds for one platform at a time, not for $PLATFORM: set one PLATFORM" >&2
		exit 1
	fi
	arch=${PLATFORM#linux/}
	for program in "$programs/kube-scheduler" "$programs/load-watcher" "$programs/rebalancer" "$programs/kubectl-plimsoll"; do
		built=$(go version -m "$program" 2>/dev/null || true)
		if [[ $built != *GOARCH=$arch$'\n'*GOOS=linux* ]]; then
			echo "make image: BINARIES=prebuilt needs $program, built for $PLATFORM: run GOOS=linux GOARCH=$arch make build KUBERNETES=$KUBERNETES PGO=1" >&2
			exit 1
		fi
	done
fi

read -ra flags <<<"${BUILD_FLAGS:-}"
echo "== building $IMAGE for $PLATFORM with ${builder[*]}"
DOCKER_BUILDKIT=1 exec "${builder[@]}" build "${flags[@]}" "${what[@]}" --platform "$PLATFORM" \
	--build-arg "BINARIES=$BINARIES" --build-arg "VERSION=$VERSION" --build-arg "REVISION=$revision" \
	--build-arg "KUBERNETES=$KUBERNETES" --build-arg "PROGRAMS=$programs" \
	${BASE:+--build-arg "BASE=$BASE"} ${GO_IMAGE:+--build-arg "GO_IMAGE=$GO_IMAGE"} .
