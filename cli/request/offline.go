package request

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"remshell/hostlist"
	"remshell/job"
	"remshell/pin"
	"remshell/plan"
	"remshell/plan/nodeset"
	"remshell/simulate"
	"remshell/sort"
)

// This file plans without contacting hosts (rule DIAG-1: --dry-run --no-probe). It uses what files and
// options say, and probes this machine. A host without slots has an unknown size; the plan is printed only
// if the size does not matter.

// PlanOffline plans a request without connecting to hosts. If this machine is a candidate host, it calls local to
// probe this machine.
func PlanOffline(req job.Request, warnings []job.Note, local LocalProbe) simulate.Outcome {
	return planWithGuesses(req, knownNodes(req, local), warnings)
}

// A LocalProbe is a function that probes this machine. It may return no attributes if the request does not
// need them.
type LocalProbe func() (job.Probe, job.Attributes, error)

// knownNodes returns the candidates whose slots are known without a connection to them, and what is known about them.
func knownNodes(req job.Request, local LocalProbe) (snap job.Snapshot) {
	for _, def := range req.Nodes {
		n := job.Node{NodeDef: def, Probe: job.Probe{Load: [3]float64{-1, -1, -1}}}
		if def.Local {
			if probe, attributes, err := local(); err == nil {
				n.Probe, n.ProbedAttributes = probe, attributes
			}
		}
		if n.SlotCount() > 0 {
			snap.Nodes = append(snap.Nodes, n)
		}
	}
	plan.Partition(snap.Nodes)
	return snap
}

// sizeUnknownError returns an error which says that the plan depends on the number of CPUs of hosts that were not
// probed.
func sizeUnknownError(hosts []string) *plan.Error {
	return &plan.Error{
		Code: "unseen", Text: fmt.Sprintf("mpiexec does not know the number of CPUs of %s, because it did not contact the hosts", hostlist.Fold(hosts)),
		Remedy: fmt.Sprintf("leave out --no-probe, or give the slots (%s:N)", hosts[0]),
	}
}

// planWithGuesses plans a job although the number of CPUs of some hosts is unknown. It makes two plans: one with a
// single slot on each of these hosts, and one with enough slots for all ranks. If the plans differ, it returns an
// error.
func planWithGuesses(req job.Request, snap job.Snapshot, warnings []job.Note) simulate.Outcome {
	warnings = slices.Concat(warnings, unprobedNotes(req), unknownAttributeNotes(req, snap))
	hosts := candidatesOfUnknownSize(req, snap)
	if option, unknown := candidatesThatMatter(req, snap, hosts); unknown != nil {
		failed := sizeUnknownError(unknown)
		fact := neededFact(req, option)
		failed.Text = fmt.Sprintf("%s depends on the %s of %s, but mpiexec did not contact the hosts", option, fact, hostlist.Fold(unknown))
		failed.Remedy = "leave out --no-probe"
		return simulate.Outcome{Request: req, Warnings: warnings, Err: failed}
	}
	if hosts == nil {
		return simulate.Decide(req, snap, warnings)
	}
	small := simulate.Decide(withSlots(req, snap, 1))
	large := simulate.Decide(withSlots(req, snap, enoughSlots(req)))
	o := small
	o.Request, o.Warnings = req, append(warnings, small.Warnings...)
	switch {
	case large.Err != nil:
		o.Err, o.Plan = large.Err, large.Plan
	case small.Err != nil || !reflect.DeepEqual(small.Plan.Nodes, large.Plan.Nodes):
		o.Err, o.Plan = sizeUnknownError(hosts), large.Plan
	}
	guessed := make(map[string]bool, len(hosts))
	for _, name := range hosts {
		guessed[name] = true
	}
	for i := range o.Snapshot.Nodes { // remove the guessed slots
		if n := &o.Snapshot.Nodes[i]; guessed[n.Name] {
			n.Slots = 0
		}
	}
	return o
}

// neededFact returns the property of hosts that mpiexec must know to apply the option, as text for an error message.
func neededFact(req job.Request, option string) string {
	switch {
	case option == "-gpus-per-proc":
		return "GPUs"
	case option == "--mem-per-rank" && req.HugePages == job.HugePagesRequired:
		return "memory and huge pages"
	case option == "--mem-per-rank":
		return "memory"
	case slices.ContainsFunc(req.Apps, func(app job.App) bool { return app.NUMA.IsSet() && option == app.NUMA.Option() }):
		return "NUMA nodes"
	case req.NodeSet.Policy != "" && option == req.NodeSet.Source:
		return req.NodeSet.Attribute
	}
	return "CPUs"
}

// candidatesThatMatter returns the candidate hosts that were not probed although the plan depends on their hardware.
// option is the option that makes the plan depend on it.
func candidatesThatMatter(req job.Request, snap job.Snapshot, unknown []string) (option string, hosts []string) {
	arch := slices.ContainsFunc(req.Apps, func(app job.App) bool { return app.Arch != "" })
	gpus := slices.ContainsFunc(req.Apps, func(app job.App) bool { return app.GPUs > 0 })
	if req.NodeSet.Policy != "" && req.NodeSet.Kind.Probed || req.Balance {
		if hosts := candidatesOfUnknownSet(req, snap); hosts != nil {
			return cmp.Or(req.NodeSet.Source, "--node-alloc"), hosts
		}
	}
	numa := slices.IndexFunc(req.Apps, func(app job.App) bool { return app.NUMA.IsSet() })
	switch m := req.Layout.Map; {
	case arch:
		option = "-arch"
	case numa >= 0:
		option = req.Apps[numa].NUMA.Option()
	case req.Memory > 0:
		option = "--mem-per-rank"
	case gpus:
		option = "-gpus-per-proc"
	case len(req.FixedPlacements) > 0 && req.FixedPlacements[0].Picks != nil:
		option = "the rank file"
	case m.Span || m.PerObject > 0 && m.Level > pin.ByNode:
		option = "--map-by " + m.Text
	case req.Layout.Rank.Order == "span":
		option = "--rank-by span"
	default:
		return "", nil
	}
	hosts = slices.Clone(unknown)
	for _, n := range snap.Nodes {
		if len(n.Topology.Cores) == 0 {
			hosts = append(hosts, n.Name)
		}
	}
	return option, hosts
}

// candidatesOfUnknownSet returns the candidate hosts whose node-set attribute is unknown, because the cluster file
// does not contain it and they were not probed.
func candidatesOfUnknownSet(req job.Request, snap job.Snapshot) (hosts []string) {
	for _, n := range unprobedNodes(req, snap) {
		if req.NodeSet.Policy != "" && !n.Attribute(req.NodeSet.Attribute).Known() || req.Balance && !n.Attribute(nodeset.ProcSpeed).Known() {
			hosts = append(hosts, n.Name)
		}
	}
	return hosts
}

// unprobedNodes returns the usable candidate hosts that were not probed, with the settings from files and options.
func unprobedNodes(req job.Request, snap job.Snapshot) (nodes []job.Node) {
	seen := make(map[int]bool, len(snap.Nodes))
	for i := range snap.Nodes {
		seen[snap.Nodes[i].ID] = len(snap.Nodes[i].Topology.Cores) > 0
	}
	usable, listed := plan.ProbeFilter(req), req.ListedNodes()
	for _, def := range req.Nodes {
		if !seen[def.ID] && listed[def.Name] && usable(def) {
			nodes = append(nodes, job.Node{NodeDef: def})
		}
	}
	return nodes
}

// unknownAttributeNotes returns, for a job that requests node sets, a note about unknown attributes of candidate
// hosts (which-hosts.md 15). It groups hosts that lack the same attributes: "NETSPEED, NETWORK of n[1-2]; MEMORY of
// n1".
func unknownAttributeNotes(req job.Request, snap job.Snapshot) []job.Note {
	if req.NodeSet.Policy == "" && !req.Balance {
		return nil
	}
	nodes := unprobedNodes(req, snap)
	lacked := make(map[string][]string) // attributes by the hosts that lack them
	var groups []string                 // of hosts, in the order of their first attribute
	kinds, _ := nodeset.KindsOf(0, nil)
	for _, name := range kinds.Names() {
		var hosts []string
		for i := range nodes {
			if kinds[name].Probed && !nodes[i].Attribute(name).Known() {
				hosts = append(hosts, nodes[i].Name)
			}
		}
		if hosts == nil {
			continue
		}
		group := hostlist.Fold(hosts)
		if lacked[group] == nil {
			groups = append(groups, group)
		}
		lacked[group] = append(lacked[group], name)
	}
	if groups == nil {
		return nil
	}
	for i, group := range groups {
		groups[i] = strings.Join(lacked[group], ", ") + " of " + group
	}
	return []job.Note{{Code: "unseen", Text: "mpiexec did not contact the hosts, so it does not know these attributes: " + strings.Join(groups, "; ")}}
}

// candidatesOfUnknownSize returns the usable candidates whose number of slots is unknown.
func candidatesOfUnknownSize(req job.Request, snap job.Snapshot) (hosts []string) {
	known := make(map[int]bool, len(snap.Nodes))
	for i := range snap.Nodes {
		known[snap.Nodes[i].ID] = true
	}
	usable, listed := plan.ProbeFilter(req), req.ListedNodes()
	for _, def := range req.Nodes {
		if !known[def.ID] && listed[def.Name] && usable(def) {
			hosts = append(hosts, def.Name)
		}
	}
	return hosts
}

// withSlots returns copies of req and snap in which candidate hosts with an unknown number of CPUs have the given
// number of slots.
func withSlots(req job.Request, snap job.Snapshot, slots int) (job.Request, job.Snapshot, []job.Note) {
	hosts := candidatesOfUnknownSize(req, snap)
	req.Nodes = slices.Clone(req.Nodes)
	seen := snap.Nodes
	snap.Nodes = nil
	for i := range req.Nodes {
		def := &req.Nodes[i]
		if slices.Contains(hosts, def.Name) {
			def.Slots = slots
			snap.Nodes = append(snap.Nodes, job.Node{NodeDef: *def, Probe: job.Probe{Load: [3]float64{-1, -1, -1}}})
			continue
		}
		for _, n := range seen {
			if n.ID == def.ID {
				snap.Nodes = append(snap.Nodes, n)
			}
		}
	}
	return req, snap, nil
}

// enoughSlots returns a number of slots for one host that is enough for the whole job.
func enoughSlots(req job.Request) int {
	ranks, threads := 2, 1
	for _, app := range req.Apps {
		ranks += max(app.N, app.PerNode)
		if len(app.Soft) > 0 {
			ranks += app.Soft[0]
		}
		threads = max(threads, app.CPUsPerRank)
	}
	return ranks * threads
}

// unprobedNotes returns notes about what is unknown in a plan that was made without probing hosts.
func unprobedNotes(req job.Request) []job.Note {
	remote := slices.ContainsFunc(req.Nodes, func(n job.NodeDef) bool { return !n.Local })
	if !remote {
		return nil
	}
	notes := []job.Note{{Code: "unseen", Text: "mpiexec contacted no host (--no-probe), so it does not know which hosts can be reached and which CPUs they have"}}
	if mode, err := sort.Parse(req.Sort, true); err == nil && len(req.Nodes) > 1 && sort.MeasuredValue(&job.Node{}, mode) != "" {
		notes = append(notes, job.Note{Code: "unseen", Text: "mpiexec cannot sort the hosts by " + strings.ToLower(string(mode)) + ", because it did not contact them (--no-probe)"})
	}
	return notes
}
