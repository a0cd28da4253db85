package hosted

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// lookupInterval is the time between two lookups of metric names.
const lookupInterval = 5 * time.Minute

// lookedUp is the result of a lookup of metric names.
type lookedUp struct {
	at   time.Time
	text string
}

// Word returns the word in the names of the resource's metrics.
func Word(r load.Resource) string {
	return [load.ResourceCount]string{load.CPU: "cpu", load.Memory: "mem"}[r]
}

// NoSeries returns the error of a query without series. lookup returns unescaped names of the account's metrics with the word.
func (s *Source) NoSeries(
	ctx context.Context, r load.Resource, lookup func(ctx context.Context, word string) ([]string, error),
) error {
	last, now := &s.lookedUp[r], s.Clock.Now()
	if last.text == "" || now.Sub(last.at).Abs() >= lookupInterval {
		word := Word(r)
		names, err := lookup(ctx, word)
		for i := range names {
			names[i] = s.Client.Excerpt(names[i])
		}
		last.at = now
		switch {
		case err != nil:
			last.text = fmt.Sprintf("the account's metrics cannot be looked up either: %v", s.Limit.Observe(s.Clock.Now(), err))
		case len(names) == 0:
			last.text = fmt.Sprintf("the account has no metric with %q in its name: use address, token and agent of the same account", word)
		default:
			last.text = fmt.Sprintf("with %q in its name the account has %s: set queries.%s to another metric, or check clusterName "+
				"and hostNameSuffix", word, text.FirstN(names), r)
		}
	}
	return errors.New("no series; " + last.text)
}
