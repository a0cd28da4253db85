# One image with the scheduler, the load-watcher service, the rebalancer and kubectl-plimsoll: static binaries that run as any user, on a read-only
# root.
# `make image` fills in the arguments. make image PINNED=1 GO_IMAGE=NAME@sha256:... BASE=NAME@sha256:... refuses tags, which anyone with
# access to their registry can move. `make release` makes the images of a release without this file, on scratch: change user,
# entrypoint and labels in hack/release/image.go too.
# Where a minor of Kubernetes needs a newer Go, make downloads it.
ARG GO_IMAGE=docker.io/library/golang:1.26
# Any base works, scratch included: the image uses nothing of it.
ARG BASE=gcr.io/distroless/static-debian12:nonroot
# Where the binaries come from: "build" compiles them; "prebuilt" copies bin/ as `make build` left it, and needs no network.
ARG BINARIES=build

FROM --platform=$BUILDPLATFORM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum Makefile ./
COPY hack/kubernetes/ hack/kubernetes/
# The minor version of Kubernetes; empty means the newest.
ARG KUBERNETES
RUN make download KUBERNETES="${KUBERNETES}"
COPY apis/ apis/
COPY cmd/ cmd/
COPY internal/ internal/
COPY manifests/ manifests/
COPY pkg/ pkg/
ARG TARGETOS
ARG TARGETARCH
ARG VERSION
# PGO=0 compiles faster, for a test of this file.
ARG PGO=1
# The folder that the programs are built into, and that BINARIES=prebuilt takes them from.
ARG PROGRAMS=bin
RUN GOOS=${TARGETOS} GOARCH=${TARGETARCH} make build VERSION="${VERSION}" KUBERNETES="${KUBERNETES}" PGO="${PGO}"
# The certificates of public authorities, because scratch has none.
RUN mkdir -p /out/certs && cp ${PROGRAMS}/kube-scheduler ${PROGRAMS}/load-watcher ${PROGRAMS}/rebalancer ${PROGRAMS}/kubectl-plimsoll /out/ && cp /etc/ssl/certs/ca-certificates.crt /out/certs/

# Prebuilt images get no certificates of public authorities. If the base has none either, https sources need caFile.
FROM scratch AS prebuilt
WORKDIR /out/certs
ARG PROGRAMS=bin
COPY --chmod=0755 ${PROGRAMS}/kube-scheduler ${PROGRAMS}/load-watcher ${PROGRAMS}/rebalancer ${PROGRAMS}/kubectl-plimsoll /out/

FROM ${BINARIES} AS binaries

FROM ${BASE}
COPY --from=binaries /out/kube-scheduler /out/load-watcher /out/rebalancer /out/kubectl-plimsoll /bin/
COPY --from=binaries /out/certs/ /etc/ssl/certs/
COPY LICENSE /licenses/LICENSE
ARG VERSION
ARG REVISION
LABEL org.opencontainers.image.title="Plimsoll" \
      org.opencontainers.image.description="A kube-scheduler that places pods by the load nodes really carry" \
      org.opencontainers.image.url="https://github.com/plimsoll-scheduler/plimsoll" \
      org.opencontainers.image.source="https://github.com/plimsoll-scheduler/plimsoll" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# A number, so that the kubelet can verify runAsNonRoot.
USER 65532:65532
ENTRYPOINT ["/bin/kube-scheduler"]
