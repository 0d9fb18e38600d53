package request

import (
	"cmp"
	"slices"
	"strings"

	"remshell/cli/option"
	"remshell/job"
	"remshell/pin"
	"remshell/psi"
	"remshell/usererr"
)

// setLayout sets the layout of a request (--map-by, --rank-by, --bind-to), and drops candidate hosts that options
// exclude.
func (w Inputs) setLayout(req *job.Request, line option.Line) error {
	j := line.Job
	req.Layout = pin.Layout{Map: j.MapBy, Rank: j.RankBy, Bind: j.BindTo, Mem: j.Memory}
	setCPUUnit(req, line)
	if err := dropExcluded(req, j); err != nil || !j.NoLocal {
		return err
	}
	others := make([]bool, len(req.Nodes))
	left := false
	for i, n := range req.Nodes {
		target := n.Host
		if n.Address != "" {
			target = n.Address
		}
		others[i] = !w.Local.Matches(target)
		left = left || others[i]
	}
	if !left {
		return &usererr.Error{Text: "with -nolocal no host is left, because all hosts are this machine", Remedy: "give other hosts with -host or -hostfile"}
	}
	retainNodes(req, others)
	return nil
}

// checkConflicts returns an error for options about NUMA nodes and hardware threads that contradict one
// another.
func checkConflicts(req job.Request) error {
	shares := make([]job.RankNeeds, len(req.Apps))
	for i, app := range req.Apps {
		shares[i] = app.RankNeeds
	}
	return psi.CheckConflicts(shares, req.Layout, req.FixedPlacements != nil)
}

// dropExcluded drops the candidates that -exclude names, no matter which option has named them as candidates.
func dropExcluded(req *job.Request, j option.JobOptions) error {
	if j.Exclude == nil {
		return nil
	}
	out := make(map[string]bool)
	for _, expr := range j.Exclude {
		for _, e := range expr {
			if e.IsRelative() {
				return &usererr.Error{Text: "-exclude does not accept " + e.Host + ", which is a position in a list of hosts", Remedy: "write -host ^" + e.Host}
			}
			out[strings.ToLower(e.Host)] = true
		}
	}
	keep := make([]bool, len(req.Nodes))
	for i, n := range req.Nodes {
		names := append([]string{n.Name, n.Host}, n.Aliases...)
		keep[i] = !slices.ContainsFunc(names, func(name string) bool { return out[strings.ToLower(name)] })
	}
	if !slices.Contains(keep, true) {
		return &usererr.Error{Text: "-exclude excludes all hosts", Remedy: "give other hosts with -host or -hostfile"}
	}
	retainNodes(req, keep)
	return nil
}

// setCPUUnit records which option has set the number of CPUs of each rank. It also applies options that say
// whether hardware threads count as CPUs.
func setCPUUnit(req *job.Request, line option.Line) {
	j := line.Job
	torch := slices.Contains(compatLaunchers(j.EnvCompat), "torch") && !req.NoPin && req.Layout.Bind.Text == ""
	for i := range req.Apps {
		app := &req.Apps[i]
		app.CPUsPerRankOrigin = cmp.Or(line.WidthFrom, app.CPUsPerRankOrigin)
		app.AllCPUs = torch && (app.CPUsPerRankOrigin == "" || app.CPUsPerRankOrigin == ompThreads) // placement.md 5.8
	}
	for i := range req.Nodes {
		if j.Threads {
			req.Nodes[i].CountThreads = true
		}
		if j.MapBy.NoThread {
			req.Nodes[i].CountThreads = false
		}
	}
}

// retainNodes drops the candidate hosts for which retain is false, together with their host entries. It returns the
// new index of each candidate that remains.
func retainNodes(req *job.Request, retain []bool) []int {
	at := make([]int, len(req.Nodes))
	var nodes []job.NodeDef
	for i, n := range req.Nodes {
		if retain[i] {
			at[i] = len(nodes)
			nodes = append(nodes, n)
		}
	}
	if req.HostEntries != nil {
		entries := make([]int, 0, len(req.HostEntries))
		for _, i := range req.HostEntries {
			if retain[i] {
				entries = append(entries, at[i])
			}
		}
		req.HostEntries = entries
	}
	req.Nodes = nodes
	return at
}
