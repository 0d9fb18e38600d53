package reserve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"remshell/fault"
	"remshell/hostlist"
	"remshell/job"
	"remshell/launch/node"
	"remshell/launch/queue"
	"remshell/plan"
	"remshell/wire"
)

// survey asks all nodes what other jobs hold of them, and makes the snapshot. Who does not
// answer is as good as gone.
func (r *reservation) survey(ctx context.Context) error {
	candidates := r.reached()
	silent, err := r.probe(ctx, candidates, r.probeTime())
	if len(silent) > 0 && err == nil { // or it is we who were stopped meanwhile
		silent, err = r.probe(ctx, silent, time.Second)
	}
	for _, n := range silent {
		n.lost = node.Silence{Limit: r.probeTime()}
		if !n.own { // the job's own nodes are not ours to give up
			go n.Close()
		}
	}
	if r.queue.Passes = len(candidates) > 0 && !slices.ContainsFunc(candidates, func(n *host) bool { return !n.inside }); r.queue.Passes {
		r.snap.Ahead = 0
	}
	if err == nil {
		r.fence()
		err = r.lostCandidates()
	}
	if err == nil {
		err = r.identify(ctx)
	}
	r.takeSnapshot()
	return err
}

// probe asks nodes what other jobs hold of them, and returns those that have not answered in
// time.
func (r *reservation) probe(ctx context.Context, nodes []*host, limit time.Duration) (silent []*host, err error) {
	answered := make(map[*host]bool)
	patient, done := r.env.Pauses.Within(ctx, limit, node.Silence{Limit: limit})
	defer done()
	question := func(n *host) wire.Message {
		m := &wire.Survey{Ledger: r.req.Queue.Ledger, Own: r.req.Job, Without: r.without, RM: r.req.RM.ID(), Traits: r.req.Traits}
		if n.def.Local {
			m.Inside = r.req.Queue.Inside
		}
		return m
	}
	_, err = r.inquire(patient, nodes, question, func(n *host, m wire.Message) bool {
		answer, ok := m.(*wire.Surveyed)
		if ok {
			answered[n] = true
			n.beyond, n.traits = answer.Beyond, answer.Traits
			n.use, n.probe.Load, n.inside = answer.Use, answer.Load, answer.Inside
			n.barred, n.most = answer.Barred, nil
			if answer.Limited {
				n.most = &answer.Most
			}
			r.notice(n, answer.Notice)
			for _, text := range answer.Warnings {
				noted(r.warnings, text, n)
			}
		}
		return ok
	})
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(nodes), func(n *host) bool { return answered[n] || n.lost != nil }), nil
}

// probeTime is how long a node may take to tell what others hold of it, while the gate is
// shut for everybody (placement.md 6.4).
func (r *reservation) probeTime() time.Duration {
	return cmp.Or(r.env.Probe, min(r.answerTime(), 10*time.Second))
}

// notice notes what is wrong with a node's ledger; empty: nothing.
func (r *reservation) notice(n *host, text string) {
	if text != "" {
		noted(r.notices, text, n)
	}
}

// noted notes that a node has told a text.
func noted(texts map[string]*nameSet, text string, n *host) {
	if texts[text] == nil {
		texts[text] = &nameSet{has: make(map[string]bool)}
	}
	texts[text].add(n.def.Name)
}

// A nameSet is names of nodes, each once, in the order in which they came.
type nameSet struct {
	names []string
	has   map[string]bool
}

func (s *nameSet) add(name string) {
	if !s.has[name] {
		s.has[name] = true
		s.names = append(s.names, name)
	}
}

// tellNotices says once what is wrong with ledgers and with the files of administrators, equal things of all nodes together.
func (r *reservation) tellNotices() {
	for _, text := range slices.Sorted(maps.Keys(r.warnings)) {
		r.sayOnce(hostlist.Fold(r.warnings[text].names) + ": warning: " + text)
	}
	clear(r.warnings)
	for _, text := range slices.Sorted(maps.Keys(r.notices)) {
		r.sayOnce(notApart(hostlist.Fold(r.notices[text].names), text))
	}
	keeper, text := r.queue.TakeNotice()
	if told := r.notices[text]; text != "" && (told == nil || !told.has[keeper]) {
		r.sayOnce(keeper + ": " + text)
	}
	clear(r.notices)
}

// lostCandidates judges helpers that went away since they were reached.
func (r *reservation) lostCandidates() error {
	for _, n := range r.hosts {
		if n.lost != nil {
			r.errs[n.def.Name] = lostEarly(n.lost)
		}
	}
	r.keep(func(n *host) bool { return n.lost == nil })
	if failed := r.failures(); len(failed) > 0 && !r.req.Skip {
		return r.unreached(failed)
	}
	return nil
}

// lostEarly is the end of a connection before the start.
func lostEarly(why error) error {
	var none notGranted
	if errors.As(why, &none) {
		return none.error
	}
	var v wire.Violation
	if errors.As(why, &v) {
		return node.Unfit{Violation: v}
	}
	if errors.As(why, new(node.Silence)) {
		return why
	}
	return fmt.Errorf("lost contact before the start (%s)", fault.Reason(why))
}

// takeSnapshot makes the snapshot of what is known now.
func (r *reservation) takeSnapshot() {
	r.snap.Nodes, r.seen = nil, nil
	left := r.queue.Left() // to the head of the queue
	for _, def := range r.req.Nodes {
		if n := r.find(def); n != nil && !left[queue.HostName(n.probe.Hostname, def)] {
			r.seen = append(r.seen, n)
			r.snap.Nodes = append(r.snap.Nodes, job.Node{NodeDef: n.ruled(), Probe: n.probe, Use: n.use.And(n.held), Traits: n.traits, Beyond: n.beyond, Mine: n.held.Busy, Fenced: n.def.Grant.Says()})
		}
	}
	plan.Partition(r.snap.Nodes)
	for i, n := range r.seen { // what is told of bindings later counts in the same cores
		n.probe = r.snap.Nodes[i].Probe
	}
	r.snap.Failed = r.failures()
}

// ruled is the node as its cluster file has it, and as its own administrator lets it be used.
func (n *host) ruled() job.NodeDef {
	def := n.def
	def.Closed = n.barred
	if n.most != nil && (def.MaxProcs == nil || *n.most < *def.MaxProcs) {
		def.MaxProcs = n.most
	}
	return def
}

// keepChoice leaves of a request that has its place what holds for spawns: they go to the candidates
// of the job, of which those are none that its list does not name, or that are closed to it by their
// flavor, class or region, and nothing is chosen anew.
func (r *reservation) keepChoice() {
	if r.req.RankFile == nil {
		listed, closed := r.req.Listed(), make(map[string]bool)
		for _, note := range r.plan.Rejected {
			if slices.Contains([]string{"flavor", "class", "region"}, note.Code) {
				closed[note.Node] = true
			}
		}
		r.req.KeepNodes(func(def job.NodeDef) bool { return listed[def.Name] && !closed[def.Name] })
	}
	of := r.req.Choosing
	r.req.Choosing = job.Choosing{Class: of.Class, Reserve: of.Reserve, Memory: of.Memory, Huge: of.Huge}
}
