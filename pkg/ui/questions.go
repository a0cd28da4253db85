package ui

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/internal/webserver"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/output"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/whatif"
)

// Questions are answered from the present state of the cluster. Their functions may be called concurrently.
type Questions struct {
	// Explain explains a pod of the namespace.
	Explain func(ctx context.Context, namespace string, r explain.Request) (explain.Result, error)
	WhatIf  func(ctx context.Context, w WhatIf) (*whatif.Report, error)
	// Moves returns the JSON of planned moves, and the command that plans them; nil without a rebalancer.
	Moves func(ctx context.Context) ([]byte, cluster.Command, error)
}

// WhatIf is a scenario. If Workload has a name, Replicas more of its pods are placed, or Fewer are removed.
type WhatIf struct {
	whatif.Scenario
	Workload  explain.Target
	Namespace string
}

// Bounds of questions. Each lists all objects of the cluster.
const (
	maxAsked      = 2
	answerTimeout = 2 * time.Minute
	// shownCandidates bounds the candidates of an answer.
	shownCandidates = 50
	maxDrained      = 100
)

type badQuery struct{ error }

// reply is the result of a question, and the command that answers it in a terminal.
type reply struct {
	result output.Result
	// content is the JSON of a result that another room has encoded; nil if result is set.
	content []byte
	command cluster.Command
}

// explain explains the pod of the query.
func (s *Server) explain(ctx context.Context, query url.Values) (reply, error) {
	namespace, pod := query.Get("namespace"), query.Get("pod")
	if namespace == "" || pod == "" {
		return reply{}, badQuery{errors.New("namespace, pod: write both")}
	}
	lent := false
	r := explain.Request{Target: explain.Target{Kind: explain.Kinds()[0], Name: pod}, Top: shownCandidates}
	r.Lend = func(ctx context.Context, of *cluster.Configuration, use func(*cluster.Cluster) error) (_ bool, err error) {
		lent, err = s.lend(ctx, of, use)
		return lent, err
	}
	result, err := s.options.Questions.Explain(ctx, namespace, r)
	if !lent {
		debug.FreeOSMemory() // it has simulated the scheduler once more
	}
	return reply{result: result, command: cluster.Plugin("explain", pod, "-n", namespace)}, err
}

// whatIf runs the scenario of the query. Waiting pods are placed too.
func (q *Questions) whatIf(ctx context.Context, query url.Values) (reply, error) {
	s := WhatIf{Scenario: whatif.Scenario{Drain: query["drain"], Like: query.Get("like"), Pending: true}}
	if len(s.Drain) > maxDrained {
		return reply{}, badQuery{fmt.Errorf("drain: %d nodes; write at most %d", len(s.Drain), maxDrained)}
	}
	var err error
	if s.AddNodes, err = count(query, "add-nodes", whatif.MaxNodes); err != nil {
		return reply{}, err
	}
	if (s.AddNodes > 0) != (s.Like != "") {
		return reply{}, badQuery{errors.New("add-nodes, like: write both, such as 2 and worker-1")}
	}
	if err := s.addWorkload(query); err != nil {
		return reply{}, err
	}
	defer debug.FreeOSMemory() // it has simulated the scheduler once more
	report, err := q.WhatIf(ctx, s)
	return reply{result: report, command: s.command()}, err
}

// command returns the command of the scenario, which reads a workload from a file.
func (w *WhatIf) command() cluster.Command {
	var args []string
	switch {
	case w.Replicas != nil:
		args = append(args, "-f", "-", "--replicas", strconv.Itoa(*w.Replicas))
	case w.Fewer > 0:
		args = append(args, "-f", "-", "--fewer", strconv.Itoa(w.Fewer))
	}
	for _, node := range w.Drain {
		args = append(args, "--drain", node)
	}
	if w.AddNodes > 0 {
		args = append(args, "--add-nodes", strconv.Itoa(w.AddNodes), "--like", w.Like)
	}
	command := cluster.Plugin("what-if", append(args, "--pending")...)
	if w.Workload.Name == "" {
		return command
	}
	return cluster.Kubectl("get", w.Workload.Type(), w.Workload.Name, "-n", w.Namespace, "-o", "yaml") + " | " + command
}

// addWorkload reads the number of pods, and the workload as TYPE/NAMESPACE/NAME.
func (w *WhatIf) addWorkload(query url.Values) error {
	more, err := count(query, "more", whatif.MaxPods)
	if err != nil {
		return err
	}
	if w.Fewer, err = count(query, "fewer", whatif.MaxPods); err != nil {
		return err
	}
	of := query.Get("of")
	if (more > 0) == (w.Fewer > 0) && of != "" || (more > 0 || w.Fewer > 0) && of == "" {
		return badQuery{errors.New("more or fewer, of: write two, such as 5 and deployment/shop/web")}
	}
	if of == "" {
		return nil
	}
	parts := strings.Split(of, "/")
	kind, err := explain.KindOf(parts[0])
	scales := slices.Contains([]string{"Deployment", "ReplicaSet", "StatefulSet", "Job"}, kind.Kind)
	if err != nil || !scales || len(parts) != 3 || parts[1] == "" || parts[2] == "" {
		return badQuery{fmt.Errorf("of: %q; write a deployment, replicaset, statefulset or job, such as deployment/shop/web", of)}
	}
	if more > 0 {
		w.Replicas = &more
	}
	w.Namespace, w.Workload = parts[1], explain.Target{Kind: kind, Name: parts[2]}
	return nil
}

// count returns a number of the query; 0 if it is absent.
func count(query url.Values, name string, highest int) (int, error) {
	text := query.Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > highest {
		return 0, badQuery{fmt.Errorf("%s: %q; write from 1 to %d", name, text, highest)}
	}
	return n, nil
}

func (q *Questions) moves(ctx context.Context, _ url.Values) (reply, error) {
	defer debug.FreeOSMemory() // it has simulated the scheduler once more
	if q.Moves == nil {
		return reply{}, badQuery{errors.New("this program has no rebalancer")}
	}
	content, command, err := q.Moves(ctx)
	return reply{content: content, command: command}, err
}

// commandHeader has the command of an answer, escaped as in the path of a URL.
const commandHeader = "Plimsoll-Command"

// answer serves the answer to a question. It ends when the browser stops waiting.
func answer(s *Server, ask func(context.Context, url.Values) (reply, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
		defer cancel()
		// Without this, the server's own deadline would end a long answer.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTimeout + webserver.WriteTimeout))
		content, command, err := s.ask(ctx, func() (reply, error) { return ask(ctx, r.URL.Query()) })
		_, bad := errors.AsType[badQuery](err)
		switch {
		case bad:
			http.Error(w, text.Excerpt(err.Error()), http.StatusBadRequest)
		case errors.Is(err, context.DeadlineExceeded):
			http.Error(w, fmt.Sprintf("no answer within %v; ask for less, or use the command", answerTimeout), http.StatusServiceUnavailable)
		case err != nil:
			http.Error(w, text.Escape(err.Error()), http.StatusInternalServerError)
		default:
			w.Header().Set(commandHeader, url.PathEscape(strings.ToValidUTF8(command, "�")))
			writeJSON(w, content)
		}
	}
}

// ask waits for its turn. It returns the JSON of the result, and a command that names the cluster.
func (s *Server) ask(ctx context.Context, question func() (reply, error)) (content []byte, command string, err error) {
	select {
	case s.asked <- struct{}{}:
	case <-ctx.Done():
		return nil, "", ctx.Err()
	}
	defer func() { <-s.asked }()
	answer, err := question()
	if err != nil {
		return nil, "", err
	}
	if content = answer.content; content == nil {
		content, err = output.Marshal(answer.result)
	}
	return content, answer.command.With(s.options.Flags...).For(s.options.Chosen), err
}
