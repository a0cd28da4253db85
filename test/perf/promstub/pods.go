package promstub

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
)

// Pod is a pod that uses 0 to 0.1 cores and bytes. Its workload has the same usage on average.
type Pod struct{ Namespace, Name, Workload string }

// Pods answers like a Prometheus with the usage of pods. The responses that do not depend on the query are prepared and packed.
type Pods struct {
	count, pods []byte
	// workloads are the elements of a response.
	workloads []string
}

// NewPods returns the answers for these pods. The usage is the same in each run.
func NewPods(pods []Pod) *Pods {
	random := rand.New(rand.NewPCG(1, 2))
	element := func(value float64, labels string, a ...any) string {
		return fmt.Sprintf(`{"metric":{%s},"value":[1700000000.123,"%v"]}`, fmt.Sprintf(labels, a...), value)
	}
	usage := func() float64 { return 0.1 * random.Float64() }
	perPod := make([]string, len(pods))
	var perWorkload, perNamespace []string
	inNamespace := map[string]int{}
	type workload struct{ namespace, name string }
	seen := map[workload]bool{}
	for i, pod := range pods {
		perPod[i] = element(usage(), `"namespace":%q,"pod":%q`, pod.Namespace, pod.Name)
		inNamespace[pod.Namespace]++
		if w := (workload{pod.Namespace, pod.Workload}); !seen[w] {
			seen[w] = true
			perWorkload = append(perWorkload, element(usage(), `"namespace":%q,"workload":%q`, w.namespace, w.name))
		}
	}
	for namespace, count := range inNamespace {
		perNamespace = append(perNamespace, element(float64(count), `"namespace":%q`, namespace))
	}
	return &Pods{count: packedVector(perNamespace), pods: packedVector(perPod), workloads: perWorkload}
}

func packedVector(elements []string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]}}`, strings.Join(elements, ","))
	_ = w.Close()
	return b.Bytes()
}

// ofPods is a part of each query about pods, and of no other.
const ofPods = `namespace!="",pod!=""`

// ServeHTTP implements http.Handler. It always sends gzip.
func (s *Pods) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Encoding", "gzip")
	response := s.pods
	switch query := r.FormValue("query"); {
	case strings.HasPrefix(query, "count("):
		response = s.count
	case strings.HasPrefix(query, "topk("):
		response = packedVector(s.workloads[:min(most(query), len(s.workloads))])
	}
	_, _ = w.Write(response) // the client may have closed the connection
}

// most is the number of series that a query for the topk of them returns at most. Clients rely on it to bound the response.
func most(query string) (k int) {
	_, _ = fmt.Sscanf(query, "topk(%d,", &k)
	return k
}
