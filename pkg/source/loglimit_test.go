package source

import (
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
)

func TestLogLimit(t *testing.T) {
	var lines []string
	logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	var limit LogLimit
	now := time.Unix(1700000000, 0)
	change := func() {
		if allowed, ok := limit.Allow(logger, now); ok {
			allowed.Info("change")
		}
	}
	for range 10 {
		change()
	}
	now = now.Add(4 * time.Minute)
	change()
	now = now.Add(time.Minute)
	change()
	change()
	plain := `"level"=0 "msg"="change"`
	want := []string{plain, plain, plain, plain, plain, plain, plain + ` "changesNotLogged"=5`} // four at once, one after 4 minutes
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("lines of 13 changes (-want +got):\n%s", diff)
	}
}
