package signalfx

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/internal/jsonstream"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/hosted"
)

// FuzzDecodeValues expects a mean to be a number within the values of the response.
func FuzzDecodeValues(f *testing.F) {
	for _, seed := range []string{
		`{"data":{"A":[[1600213380000,84.6],[1600213440000,null]],"B":[]},"errors":[]}`, `{"errors":[{"code":1}],"data":null}`,
		`{"data":{"A":[[1600213380000]]}}`, `{"data":{"A":[[-1,1e308],[1e13,1e308]]}}`, `{"data":{"A":null,"A":[[null,null]]}}`, `[]`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		rng := hosted.Range{Step: time.Minute, Windows: []time.Duration{5 * time.Minute, 15 * time.Minute}}
		response, err := decodeValues(jsonstream.NewDecoder(strings.NewReader(body), 1000), rng, now)
		if err != nil {
			return
		}
		if len(response.errors) > maxErrors {
			t.Errorf("%d errors kept", len(response.errors))
		}
		table := hosted.NewTable(nodes(1), "", func(text string) string { return text })
		for _, one := range response.series {
			table.Offer("n0", load.CPU, rng, time.Time{}, one)
		}
		for _, sample := range table.Samples(rng.Windows) {
			stat := sample.Stats[load.CPU]
			if !stat.Known || math.IsNaN(stat.Mean) || stat.Span < 0 || sample.End.IsZero() {
				t.Errorf("sample %+v", sample)
			}
		}
	})
}

// FuzzDecodePage expects an error or results.
func FuzzDecodePage(f *testing.F) {
	for _, seed := range []string{
		`{"count":5,"partialCount":false,"results":[{"id":"A","dimensions":{"host":"n1","sf_metric":null}}]}`, `{"results":null}`,
		`{"count":-1,"results":[{"id":1,"dimensions":{"host":["n1"]}},null]}`, `{"results":[{"name":"cpu.idle"}]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		page, err := decodePage(jsonstream.NewDecoder(strings.NewReader(body), 1000))
		if (page == nil) != (err != nil) {
			t.Errorf("page %v, error %v", page, err)
		}
	})
}
