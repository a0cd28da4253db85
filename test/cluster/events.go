package cluster

import (
	"context"
	"fmt"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Event is an Event of the API server.
type Event struct {
	Type, Reason, Note string
	// Time is when it first happened.
	Time time.Time
}

// WaitEvent waits for an Event with the reason about a node or a pod of the default namespace. It returns the earliest.
func (c *Cluster) WaitEvent(ctx context.Context, object, reason string) (Event, error) {
	var first Event
	err := c.poll(ctx, fmt.Sprintf("an Event %s about %s", reason, object), func(ctx context.Context) (string, error) {
		events, err := c.events(ctx, object, reason)
		if err != nil {
			return "", err
		}
		if len(events) == 0 {
			return "there is none", nil
		}
		first = events[0]
		for _, e := range events[1:] {
			if e.Time.Before(first.Time) {
				first = e
			}
		}
		return "", nil
	})
	return first, err
}

func (c *Cluster) events(ctx context.Context, object, reason string) ([]Event, error) {
	list, err := c.Client.EventsV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{FieldSelector: "reason=" + reason})
	if err != nil {
		return nil, err
	}
	var events []Event
	for _, e := range list.Items {
		if e.Regarding.Name == object {
			events = append(events, Event{Type: e.Type, Reason: e.Reason, Note: e.Note, Time: firstTime(&e)})
		}
	}
	return events, nil
}

func firstTime(e *eventsv1.Event) time.Time {
	if e.EventTime.IsZero() {
		return e.DeprecatedFirstTimestamp.Time
	}
	return e.EventTime.Time
}
