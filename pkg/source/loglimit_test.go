package source

import (
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
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
	check.Equal(t, "lines of 13 changes", want, lines)
}

func TestUnmatchedLog(t *testing.T) {
	var lines []string
	logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: 2})
	six := []string{"a", "b", "c", "d", "e", "f"}
	tests := []struct {
		name      string
		unmatched []string
		want      []string
	}{
		{"nothing at first", nil, nil},
		{"six, of which five are named", six, []string{`"level"=2 "msg"="Hosts" "url"="u" "count"=6 "examples"="a, b, c, d, e, …"`}},
		{"the same six", append([]string(nil), six...), nil},
		{"another one behind the named five", []string{"a", "b", "c", "d", "e", "x"}, []string{`"level"=2 "msg"="Hosts" "url"="u" "count"=6 "examples"="a, b, c, d, e, …"`}},
		{"all five are named", six[:5], []string{`"level"=2 "msg"="Hosts" "url"="u" "count"=5 "examples"="a, b, c, d, e"`}},
		{"none any more", nil, []string{`"level"=2 "msg"="Hosts" "url"="u" "count"=0 "examples"=""`}},
		{"still none", []string{}, nil},
	}
	var log UnmatchedLog
	for _, tt := range tests { // each continues from the one before
		lines = nil
		log.Log(logger, tt.unmatched, "Hosts", "url", "u")
		check.Equal(t, tt.name+": lines", tt.want, lines)
	}
}
