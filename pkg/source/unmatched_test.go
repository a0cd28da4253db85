package source

import (
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
)

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
		{
			"another one behind the named five",
			[]string{"a", "b", "c", "d", "e", "x"},
			[]string{`"level"=2 "msg"="Hosts" "url"="u" "count"=6 "examples"="a, b, c, d, e, …"`},
		},
		{"all five are named", six[:5], []string{`"level"=2 "msg"="Hosts" "url"="u" "count"=5 "examples"="a, b, c, d, e"`}},
		{"none any more", nil, []string{`"level"=2 "msg"="Hosts" "url"="u" "count"=0 "examples"=""`}},
		{"still none", []string{}, nil},
	}
	var log UnmatchedLog
	for _, tt := range tests { // each continues from the one before
		lines = nil
		log.Log(logger, tt.unmatched, "Hosts", "url", "u")
		if diff := cmp.Diff(tt.want, lines); diff != "" {
			t.Errorf("%s: lines (-want +got):\n%s", tt.name, diff)
		}
	}
}
