package cluster

import (
	"context"
	"fmt"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Events returns the Events of a reason.
func (c *Cluster) Events(ctx context.Context, namespace, reason string) ([]eventsv1.Event, error) {
	list, err := c.Client.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=" + reason})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// WaitEvent waits for an Event of the scheduler, with the reason, about a node or a pod of the default namespace. It returns the
// earliest.
func (c *Cluster) WaitEvent(ctx context.Context, object, reason string) (first eventsv1.Event, err error) {
	err = c.poll(ctx, fmt.Sprintf("an Event %s about %s", reason, object), func(ctx context.Context) (string, error) {
		events, err := c.Events(ctx, metav1.NamespaceDefault, reason)
		missing := "there is none"
		for _, e := range events {
			if e.Regarding.Name == object && (missing != "" || e.EventTime.Before(&first.EventTime)) {
				first, missing = e, ""
			}
		}
		return missing, err
	})
	return first, err
}
