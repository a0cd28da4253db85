package cluster

import (
	"context"
	"fmt"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WaitEvent waits for an Event of the scheduler, with the reason, about a node or a pod of the default namespace. It returns the
// earliest.
func (c *Cluster) WaitEvent(ctx context.Context, object, reason string) (first eventsv1.Event, err error) {
	err = c.poll(ctx, fmt.Sprintf("an Event %s about %s", reason, object), func(ctx context.Context) (string, error) {
		list, err := c.Client.EventsV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{FieldSelector: "reason=" + reason})
		if err != nil {
			return "", err
		}
		missing := "there is none"
		for _, e := range list.Items {
			if e.Regarding.Name == object && (missing != "" || e.EventTime.Before(&first.EventTime)) {
				first, missing = e, ""
			}
		}
		return missing, nil
	})
	return first, err
}
