package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"remshell/job"
	"remshell/plan"
	"remshell/wire"
)

// muster reaches all candidates at once and hears what their helpers found. A
// candidate that cannot be reached fails the job, since the user named it, unless
// it may be skipped (SSH-6). The fleet is valid also with an error.
func muster(ctx context.Context, req job.Request, env Env, events *box) (*fleet, job.Snapshot, error) {
	f := &fleet{env: env, events: events}
	reached := make([]*node, len(req.Nodes))
	errs := make([]error, len(req.Nodes))
	var dialing sync.WaitGroup
	for i, def := range req.Nodes {
		if !plan.Worth(req, def) {
			continue // the plan will say why
		}
		dialing.Go(func() { reached[i], errs[i] = reachNode(ctx, def, env) })
	}
	dialing.Wait()
	var snap job.Snapshot
	for i, n := range reached {
		if errs[i] != nil {
			snap.Failed = append(snap.Failed, job.Failure{Node: req.Nodes[i].Name, Origin: req.Nodes[i].Origin, Err: errs[i]})
			continue
		}
		if n == nil {
			continue
		}
		f.all = append(f.all, n)
		snap.Nodes = append(snap.Nodes, job.Node{NodeDef: n.def, Probe: n.probe})
	}
	if ctx.Err() != nil {
		return f, snap, why(ctx)
	}
	if len(snap.Failed) > 0 && (!req.Skip || len(snap.Nodes) == 0) {
		return f, snap, &UnreachableError{snap.Failed, req.Skip}
	}
	for _, text := range foldFailures(snap.Failed) {
		env.Say(text.line + "; skipped")
	}
	return f, snap, nil
}

// reachNode connects to one node and takes its helper's first words.
func reachNode(ctx context.Context, def job.NodeDef, env Env) (*node, error) {
	began := time.Now()
	rw, err := env.Dialer.Dial(ctx, def)
	if err != nil {
		return nil, err
	}
	n := &node{def: def, index: -1, rw: rw, conn: wire.NewConn(rw)}
	late := time.AfterFunc(env.Greet, func() { n.conn.Abandon() })
	stop := context.AfterFunc(ctx, func() { n.conn.Abandon() })
	defer stop()
	err = n.greet(env)
	if err == nil && !late.Stop() {
		err = errors.New("helper: began to answer too late")
	}
	if err != nil {
		n.conn.Abandon()
		return nil, n.explain(err)
	}
	env.Log.Debug().Str("node", def.Name).Dur("ms", time.Since(began)).Msg("reached")
	return n, nil
}

// greet hears the helper's Hello and Node.
func (n *node) greet(env Env) error {
	hello, noise, err := n.conn.Greet()
	if err != nil {
		return err
	}
	if len(noise) > 0 {
		env.Log.Debug().Str("node", n.def.Name).Bytes("text", noise).Msg("login shell printed")
	}
	if hello.Version != wire.Version || env.Build != "" && hello.Build != env.Build {
		return fmt.Errorf("helper: another version (%s) answered; this is %s", hello.Build, env.Build)
	}
	m, err := n.conn.Recv()
	if err != nil {
		return err
	}
	found, ok := m.(*wire.Node)
	if !ok {
		return fmt.Errorf("helper: said %T where its probe was expected", m)
	}
	if found.Err != "" {
		return fmt.Errorf("helper: probe: %s", found.Err)
	}
	n.probe = found.Probe
	return nil
}

// explain adds to an error of the connection what the stream knows of its end.
func (n *node) explain(err error) error {
	if reason := whyEnded(n.rw); reason != nil {
		return reason
	}
	return err
}

// whyEnded asks a stream why it ended; nil if it does not know.
func whyEnded(rw io.ReadWriteCloser) error {
	if s, ok := rw.(interface{ Why() string }); ok {
		if reason := s.Why(); reason != "" {
			return errors.New(reason)
		}
	}
	return nil
}

// An UnreachableError says which of the named hosts could not be used. Its text has
// one line per reason, with the hosts folded.
type UnreachableError struct {
	Failed  []job.Failure
	Skipped bool // --skip-unreachable was given, and nobody is left
}

func (e *UnreachableError) Error() string {
	var lines []string
	for _, f := range foldFailures(e.Failed) {
		lines = append(lines, f.line)
	}
	return strings.Join(lines, "\n")
}

// Hint says what could be done for all reasons alike, where none has its own.
func (e *UnreachableError) Hint() string {
	var hints []string
	for _, f := range foldFailures(e.Failed) {
		if f.hint != "" && !slices.Contains(hints, f.hint) {
			hints = append(hints, f.hint)
		}
	}
	return strings.Join(hints, "\n")
}

// A foldedFailure is one reason and all hosts that have it.
type foldedFailure struct{ line, hint string }

// foldFailures says equal reasons once: "node[03-42]: connection refused".
func foldFailures(failed []job.Failure) []foldedFailure {
	hosts := make(map[string][]string)
	hints := make(map[string]string)
	var order []string
	for _, f := range failed {
		reason := reasonOf(f.Err)
		if _, known := hosts[reason]; !known {
			order = append(order, reason)
		}
		hosts[reason] = append(hosts[reason], f.Node)
		var h interface{ Hint() string }
		if hints[reason] == "" && errors.As(f.Err, &h) {
			hints[reason] = h.Hint()
		}
	}
	var folded []foldedFailure
	for _, reason := range order {
		folded = append(folded, foldedFailure{fold(hosts[reason]) + ": " + reason, hints[reason]})
	}
	return folded
}

// reasonOf is an error's text without the name of its host, so that equal reasons
// are equal texts.
func reasonOf(err error) string {
	var r interface{ Reason() string }
	if errors.As(err, &r) {
		return r.Reason()
	}
	return err.Error()
}
