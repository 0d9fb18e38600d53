package reserve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"remshell/hostlist"
	"remshell/job"
	"remshell/launch/node"
	"remshell/launch/queue"
	"remshell/plan"
	"remshell/usererr"
	"remshell/wire"
)

// surveyNodes asks all nodes which CPUs and GPUs other jobs use, and builds the snapshot for the plan from the replies.
// A node that does not reply counts as lost.
func (r *reservation) surveyNodes(ctx context.Context) error {
	candidates := r.reachedHosts()
	silent, err := r.surveyWithin(ctx, candidates, r.surveyTimeout())
	if len(silent) > 0 && err == nil { // otherwise the timeout may have passed only because mpiexec was stopped
		silent, err = r.surveyWithin(ctx, silent, time.Second)
	}
	for _, n := range silent {
		n.lost = node.NoAnswerError{Limit: r.surveyTimeout()}
		if !n.ofJob { // the job's own nodes must not be closed here
			go n.Close()
		}
	}
	if r.queue.Bypass = len(candidates) > 0 && !slices.ContainsFunc(candidates, func(n *host) bool { return !n.jobHasAll }); r.queue.Bypass {
		r.snap.Ahead = 0
	}
	if err == nil {
		r.confineToGrant()
		err = r.checkLostCandidates()
	}
	if err == nil {
		err = r.checkIdentities(ctx)
	}
	r.takeSnapshot()
	return err
}

// surveyWithin asks nodes which CPUs and GPUs other jobs use. It returns the nodes that have not replied
// within limit.
func (r *reservation) surveyWithin(ctx context.Context, nodes []*host, limit time.Duration) (silent []*host, err error) {
	asked := make(map[*host]time.Time)
	request := func(n *host) *wire.Survey {
		asked[n] = time.Now()
		m := &wire.Survey{Ledger: r.req.Queue.LedgerDir, OwnJob: r.req.Job, IgnoredUsers: r.ignoredUsers, RM: r.req.RM.ID(), WantAttributes: r.req.WantAttributes, WantGang: r.req.Gang}
		if n.def.Local {
			m.ParentJob = r.req.Queue.ParentJob
		}
		return m
	}
	return callWithin(ctx, r, limit, nodes, request, func(n *host, answer *wire.Surveyed) {
		n.outsideOccupancy, n.attributes = answer.OutsideOccupancy, answer.Attributes
		n.occupancy, n.probe.Load, n.jobHasAll = answer.Occupancy, answer.Load, answer.InParentJob
		n.forbidden, n.drained, n.maxRanks, n.gang = answer.Forbidden, answer.Drained, nil, answer.Gang
		n.clock = clockRange{answer.Clock.Sub(time.Now()), answer.Clock.Sub(asked[n])}
		if answer.Limited {
			n.maxRanks = &answer.MaxRanks
		}
		r.addNotice(n, answer.Notice)
		for _, text := range answer.Warnings {
			addNoted(r.warnings, text, n)
		}
	})
}

// surveyTimeout returns how long a node may take to report what other jobs use. This time is short, because no other
// job can be planned meanwhile (placement.md 6.4).
func (r *reservation) surveyTimeout() time.Duration {
	return cmp.Or(r.env.ProbeTimeout, min(r.replyTimeout(), 10*time.Second))
}

// addNotice records a problem that a node has reported about its ledger (directory of claims). It does
// nothing if the text is empty.
func (r *reservation) addNotice(n *host, text string) {
	if text != "" {
		addNoted(r.notices, text, n)
	}
}

// addNoted adds the name of n to texts[text], the names of the nodes that have reported text.
func addNoted(texts map[string]*nameSet, text string, n *host) {
	if texts[text] == nil {
		texts[text] = &nameSet{has: make(map[string]bool)}
	}
	texts[text].add(n.def.Name)
}

// A nameSet is a set of node names in the order in which they were added.
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

// reportLedgerNotices reports problems that nodes have with their ledger (directory of claims) or with their
// administrator's files. It reports each problem once, together with all nodes that have it.
func (r *reservation) reportLedgerNotices() {
	for _, text := range slices.Sorted(maps.Keys(r.warnings)) {
		r.reportOnce(hostlist.Fold(r.warnings[text].names) + ": warning: " + text)
	}
	clear(r.warnings)
	for _, text := range slices.Sorted(maps.Keys(r.notices)) {
		r.reportOnce(separationError(hostlist.Fold(r.notices[text].names), text))
	}
	queueHost, text := r.queue.TakeNotice()
	if reported := r.notices[text]; text != "" && (reported == nil || !reported.has[queueHost]) {
		r.reportOnce(queueHost + ": " + text)
	}
	clear(r.notices)
}

// checkLostCandidates removes hosts whose connection has ended from the reservation. It returns an error if the job
// needs all its hosts.
func (r *reservation) checkLostCandidates() error {
	for _, n := range r.hosts {
		if n.lost != nil {
			r.errs[n.def.Name] = lostBeforeStart(n.lost)
		}
	}
	r.keepHosts(func(n *host) bool { return n.lost == nil })
	if failed := r.connectFailures(); len(failed) > 0 && !r.req.SkipUnreachable {
		return r.unreachedError(failed)
	}
	return nil
}

// lostBeforeStart returns the error for a host whose connection ended before the ranks started.
func lostBeforeStart(cause error) error {
	var none nothingGrantedError
	if errors.As(cause, &none) {
		return none.error
	}
	var v wire.Violation
	if errors.As(cause, &v) {
		return node.ViolationError{Violation: v}
	}
	if errors.As(cause, new(node.NoAnswerError)) {
		return cause
	}
	return fmt.Errorf("mpiexec lost contact with the host before the ranks started (%s)", usererr.Reason(cause))
}

// takeSnapshot builds the snapshot for the plan from the reports of the nodes.
func (r *reservation) takeSnapshot() {
	r.snap.Nodes, r.snapHosts = nil, nil
	avoided := r.queue.AvoidedNodes() // left to the head of the queue
	for _, def := range r.req.Nodes {
		if n := r.findHost(def); n != nil && !avoided[queue.HostName(n.probe.Hostname, def)] {
			r.snapHosts = append(r.snapHosts, n)
			r.snap.Nodes = append(r.snap.Nodes, job.Node{NodeDef: n.definitionWithRules(), Probe: n.probe, Occupancy: n.occupancy.Union(n.ownOccupancy), ProbedAttributes: n.attributes, OutsideOccupancy: n.outsideOccupancy, Gang: n.gang, ShareableCPUs: n.ownOccupancy.BusyCPUs, Confined: n.def.GrantedCPUs.IsGiven()})
		}
	}
	plan.Partition(r.snap.Nodes)
	for i, n := range r.snapHosts { // bindings that are reported later use the same core numbers
		n.probe = r.snap.Nodes[i].Probe
	}
	r.snap.Failed = r.connectFailures()
}

// definitionWithRules returns the node's definition in the cluster file, restricted by the rules that the
// node's administrator has set on the node itself.
func (n *host) definitionWithRules() job.NodeDef {
	def := n.def
	def.ClosedWhy, def.Drained = n.forbidden, n.drained
	if n.maxRanks != nil && (def.MaxProcs == nil || *n.maxRanks < *def.MaxProcs) {
		def.MaxProcs = n.maxRanks
	}
	return def
}

// keepSelection restricts the request to the nodes on which later spawns may start ranks: the job's candidates, except
// nodes that the host list, flavor, class or region excludes. It also removes selections, such as regions and node
// sets, that a spawn must not apply again.
func (r *reservation) keepSelection() {
	if r.req.FixedPlacements == nil {
		listed, closed := r.req.ListedNodes(), make(map[string]bool)
		for _, note := range r.plan.Rejected {
			if slices.Contains([]string{"flavor", "class", "region"}, note.Code) {
				closed[note.Node] = true
			}
		}
		r.req.KeepNodes(func(def job.NodeDef) bool { return listed[def.Name] && !closed[def.Name] })
	}
	s := r.req.NodeSelection
	r.req.NodeSelection = job.NodeSelection{Class: s.Class, Reserve: s.Reserve, Memory: s.Memory, HugePages: s.HugePages}
}
