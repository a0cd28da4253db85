#!/usr/bin/env bash
# An informer whose API server refuses connections tells nobody: its watch error handler is not called, and its objects grow old.
#
# k8s.io/client-go v0.37.2. By its documentation, a handler learns of each connection that is lost with an error. Once the first list
# is done, a watch that is refused, or answered with status 429, is tried again in a loop that calls no handler. Other errors call
# it. A program that shows objects by an informer has to ask the server itself to learn that they may be old.
#
# Output:
#
#   error of the watch    watches tried again    handler called
#   connection refused    yes                    no
#   other                 yes                    yes
set -euo pipefail
minor=37.2

export CGO_ENABLED=0 GOFLAGS='-trimpath -mod=mod' GOWORK=off GOTOOLCHAIN=auto
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >main.go <<'END'
// Command finding lets the watches of an informer fail, and counts the calls of its handler.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// fail returns how often the watch was tried and the handler called within ten seconds after the first list.
func fail(cause error) (watches, calls int32, err error) {
	ctx, stop := context.WithTimeout(klog.NewContext(context.Background(), klog.Logger{}), time.Minute)
	defer stop()
	var tried, called atomic.Int32
	informer := cache.NewSharedInformer(&cache.ListWatch{
		ListFunc: func(metav1.ListOptions) (runtime.Object, error) {
			return &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
		},
		WatchFunc: func(o metav1.ListOptions) (watch.Interface, error) {
			if o.SendInitialEvents != nil {
				return nil, apierrors.NewBadRequest("this server has no streams of lists")
			}
			tried.Add(1)
			return nil, cause
		},
	}, &corev1.Node{}, 0)
	count := func(*cache.Reflector, error) {
		if tried.Load() > 0 {
			called.Add(1)
		}
	}
	if err := informer.SetWatchErrorHandler(count); err != nil {
		return 0, 0, err
	}
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return 0, 0, errors.New("the first list has not ended")
	}
	time.Sleep(10 * time.Second)
	return tried.Load(), called.Load(), nil
}

func run() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		return err
	}
	_, refused := net.Dial("tcp", address) // nobody listens there now
	yes := map[bool]string{true: "yes", false: "no"}
	for _, of := range []struct {
		name  string
		cause error
	}{{"connection refused", refused}, {"other", errors.New("the connection was reset")}} {
		watches, calls, err := fail(of.cause)
		if err != nil {
			return err
		}
		fmt.Printf("%s|%s|%s\n", of.name, yes[watches > 1], yes[calls > 0])
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
END
cat >go.mod <<END
module finding

require (
	k8s.io/api v0.$minor
	k8s.io/apimachinery v0.$minor
	k8s.io/client-go v0.$minor
)
END
timeout 600 go build -o finding . 2>build.log || {
	cat build.log >&2
	exit 1
}
timeout 150 ./finding 2>finding.log >seen || {
	tail -n 20 finding.log >&2
	exit 1
}

printf '%-21s %-22s %s\n' 'error of the watch' 'watches tried again' 'handler called'
while IFS='|' read -r error tried called; do printf '%-21s %-22s %s\n' "$error" "$tried" "$called"; done <seen
if ! printf 'connection refused|yes|no\nother|yes|yes\n' | cmp -s - seen; then
	echo 'The behavior has changed.' >&2
	exit 1
fi
