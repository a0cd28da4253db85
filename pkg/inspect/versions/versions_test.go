package versions_test

import (
	"errors"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/versions"
)

func TestPrint(t *testing.T) {
	found := &cluster.Configuration{Workload: &cluster.Workload{
		Kind: "Deployment", Namespace: "plimsoll-system", Name: "plimsoll", Image: "plimsoll:v1.2.3-k1.37", ChartVersion: "1.2.3",
	}}
	for _, tt := range []struct {
		name  string
		found *cluster.Configuration
		err   error
		want  string
	}{
		{"a scheduler of the chart", found, nil, "Scheduler: Deployment plimsoll-system/plimsoll, image plimsoll:v1.2.3-k1.37\nChart: 1.2.3\n"},
		{"no scheduler", nil, errors.New("no Deployment"), "Scheduler: not found: no Deployment\n"},
		{"a file", &cluster.Configuration{Origin: "file a.yaml"}, nil, "Scheduler: not found: its configuration is file a.yaml\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &versions.Report{Client: versions.Client{Version: "v1.2.3", Kubernetes: "v1.37.2"}}
			r.SetScheduler(tt.found, tt.err)
			p := &terminal.Printer{}
			r.Print(p)
			if want := "Client: Plimsoll v1.2.3, Kubernetes v1.37.2\n" + tt.want; p.String() != want {
				t.Errorf("%s, want %s", p, want)
			}
		})
	}
}
