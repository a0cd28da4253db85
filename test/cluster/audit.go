package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

const (
	auditPolicy = "audit.yaml"
	auditLog    = "audit.log"
)

// AuditEvents returns the requests to the API server so far, those of administrators excepted, with the status of their
// responses. It takes Options.AuditLog.
func (c *Cluster) AuditEvents() ([]auditv1.Event, error) {
	log, err := os.ReadFile(c.path(auditLog))
	if err != nil {
		return nil, err
	}
	var events []auditv1.Event
	for line := range bytes.Lines(log) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // the API server is still writing it
		}
		var e auditv1.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		events = append(events, e)
	}
	return events, nil
}
