#!/usr/bin/env bash
# Writes what a release of kubectl-plimsoll consists of to bin/krew: an archive for each platform that manifests/krew/plimsoll.yaml
# names, and that manifest with their checksums. Environment variables:
#   VERSION    the version, such as v1.2.3
#   PLATFORMS  the platforms to build and to leave in the manifest, such as "linux/amd64"; all of the manifest by default
#   BINARIES   prebuilt takes bin/kubectl-plimsoll for the only platform
#   OUT        where to write instead
set -euo pipefail
cd "$(dirname "$0")/.."

: "${OUT:=bin/krew}" "${BINARIES:=build}"
manifest=manifests/krew/plimsoll.yaml
if [[ ! ${VERSION:-} =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]]; then
	echo "make krew: krew takes semantic versions only, but VERSION is \"${VERSION:-}\": set VERSION=v1.2.3" >&2
	exit 1
fi
: "${PLATFORMS:=$(sed -n 's/.*{os: \([a-z]*\), arch: \([a-z0-9]*\)}.*/\1\/\2/p' "$manifest")}"
read -ra platforms <<<"$(tr '\n' ' ' <<<"$PLATFORMS")"
if [[ $BINARIES == prebuilt && ${#platforms[@]} -ne 1 ]]; then
	echo "make krew: BINARIES=prebuilt is for one platform at a time: set one in PLATFORMS" >&2
	exit 1
fi

mkdir -p "$OUT"
staging=$(mktemp -d)
trap 'rm -rf "$staging"' EXIT
cp LICENSE "$staging/"
checksums=$staging/checksums
for platform in "${platforms[@]}"; do
	os=${platform%/*} arch=${platform#*/}
	if [[ $BINARIES == prebuilt ]]; then
		cp bin/kubectl-plimsoll "$staging/"
	else
		GOOS=$os GOARCH=$arch make -s build VERSION="$VERSION" PROGRAMS=./cmd/kubectl-plimsoll BIN="$staging/"
	fi
	archive=kubectl-plimsoll_${VERSION}_${os}_${arch}.tar.gz
	# The same program makes the same archive.
	tar --create --directory "$staging" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=a+rX,u+w,go-w \
		LICENSE kubectl-plimsoll | gzip --no-name >"$OUT/$archive"
	echo "$archive $(sha256sum <"$OUT/$archive" | cut -d' ' -f1)" >>"$checksums"
done

# Each platform of the manifest begins with "  - selector:" and goes to the next one. Those that were not built are left out.
awk -v version="$VERSION" -v checksums="$checksums" '
	function flush() { if (built) printf "%s", block; block = ""; built = 1 }
	BEGIN { while ((getline line <checksums) > 0) { split(line, f, " "); sum[f[1]] = f[2] }; built = 1 }
	/^#/ { next }
	/^  - selector:/ { flush() }
	{ gsub(/VERSION/, version) }
	/^    uri: / { archive = $2; sub(/.*\//, "", archive); built = archive in sum }
	/^    sha256: / { sub(/SHA256/, sum[archive]) }
	{ block = block $0 "\n" }
	END { flush() }
' "$manifest" >"$OUT/plimsoll.yaml"
echo "$OUT/plimsoll.yaml"
