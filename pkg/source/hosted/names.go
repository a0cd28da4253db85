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

// Names looks up an account's metrics for errors about queries without series. The zero value is ready.
// It is not safe for concurrent use.
type Names struct {
	last [load.ResourceCount]struct {
		at   time.Time
		text string
	}
}

// Word returns the word in the names of the resource's metrics.
func Word(r load.Resource) string {
	return [load.ResourceCount]string{load.CPU: "cpu", load.Memory: "mem"}[r]
}

// NoSeries returns the error of a query without series. lookup returns names of the account's metrics with the word.
func (n *Names) NoSeries(ctx context.Context, now time.Time, r load.Resource,
	lookup func(ctx context.Context, word string) ([]string, error),
) error {
	last := &n.last[r]
	if last.text == "" || now.Sub(last.at).Abs() >= lookupInterval {
		word := Word(r)
		names, err := lookup(ctx, word)
		last.at = now
		switch {
		case err != nil:
			last.text = fmt.Sprintf("the account's metrics cannot be looked up either: %v", err)
		case len(names) == 0:
			last.text = fmt.Sprintf("the account has no metric with %q in its name: use address, token and agent of the same account", word)
		default:
			last.text = fmt.Sprintf(
				"with %q in its name the account has %s: set queries.%s to another metric, or check clusterName and hostNameSuffix", word,
				text.FirstN(names), r,
			)
		}
	}
	return errors.New("no series; " + last.text)
}

// Summary returns the first error with the number of the others, or nil.
func Summary(errs []error) error {
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	return fmt.Errorf("%w (and %d more: %w)", errs[0], len(errs)-1, errs[1])
}
