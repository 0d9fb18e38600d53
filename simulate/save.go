package simulate

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"remshell/job"
	"remshell/pin"
)

// Save writes a request, and what mpiexec has measured on the nodes, as a cluster state. With this file, the request
// can be planned again without access to any node (placement.md 9). The request must have exactly one app context. The
// saved options include all defaults, so that environment variables have no effect when the file is read.
func Save(w io.Writer, req job.Request, snap job.Snapshot) error {
	version := 1
	f := stateFile{
		Version: &version, Env: map[string]*string{}, Options: optionsOf(req),
		UID: req.User.UID, GID: req.User.GID, GIDs: req.User.GIDs, QueueAhead: snap.Ahead, Waited: snap.Waited.Seconds(), LocalOnly: req.LocalOnly && !req.NoOversubscribe,
	}
	f.Config.selectionRules = rulesOf(req.NodeSelection)
	jobOptions(req.NodeSelection, &f.Options.selectionOptions)
	appOptions(req.Apps[0].RankNeeds, &f.Options.selectionOptions)
	if n := req.Apps[0].N; n > 0 {
		f.NP = number[scalarText](n)
	}
	seen := make(map[int]job.Node)
	for _, n := range snap.Nodes {
		seen[n.ID] = n
	}
	for _, def := range req.Nodes {
		n, up := seen[def.ID]
		n.NodeDef = def
		f.Nodes = append(f.Nodes, nodeOf(n, up && n.Down == ""))
	}
	f.MapBy, f.RankBy, f.BindTo = req.Layout.Map.Text, req.Layout.Rank.Text, req.Layout.Bind.Text
	f.Memory = req.Layout.Mem.Text
	if each := max(0, req.Apps[0].GPUs); req.Apps[0].GPUs != 0 {
		f.GPUs = &each
	}
	for _, s := range req.FixedPlacements {
		f.FixedPlacements = append(f.FixedPlacements, fixedPlacement{Node: req.Nodes[s.Node].ID, CPUs: rangesText(s.Picks)})
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", " ")
	return encoder.Encode(f)
}

// rangesText returns the CPUs that a rank file assigns to a rank, as a string.
func rangesText(ranges []pin.CPURange) string {
	var items []string
	for _, p := range ranges {
		items = append(items, p.String())
	}
	return strings.Join(items, ";")
}

// number returns n as a scalar value for the state file.
func number[T scalarText | scalarOrBool](n int) *T {
	w := T(strconv.Itoa(n))
	return &w
}

// optionsOf converts a request to the options in the state file.
func optionsOf(req job.Request) options {
	pin, bind, app := !req.NoPin, !req.NoMemBind, req.Apps[0]
	o := options{
		TPP: number[scalarText](max(1, app.CPUsPerRank)), PPN: number[scalarText](app.PerNode), Exclusive: &req.Exclusive, Overbook: &req.Overbook,
		Share: req.Oversubscribe, Gang: req.Gang,
		Loop: &req.RoundRobin, Wait: &req.Wait, Pin: &pin, MemBind: &bind,
	}
	if req.Overbook && !req.Exclusive {
		o.Exclusive = nil // "no" would cause a warning
	}
	sort := req.Sort
	if sort == "" {
		sort = "NONE"
	}
	entries := make([]int, 0, len(req.HostEntries))
	for _, i := range req.HostEntries {
		entries = append(entries, req.Nodes[i].ID)
	}
	if req.HostEntries == nil {
		for _, n := range req.Nodes {
			entries = append(entries, n.ID)
		}
	}
	nodes, types, cpuMap := joinNumbers(entries), strings.Join(slices.Concat(app.Features, app.ProbedFeatures), ","), joinNumbers(req.CPUMap)
	o.Sort, o.Nodes, o.Nodetype, o.Map = &sort, &nodes, &types, &cpuMap
	return o
}

func joinNumbers(numbers []int) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(numbers), "[]"), " ", ",")
}

// nodeOf converts a node to its form in the state file, where cores are listed one by one. reached is false if mpiexec
// could not connect to the node.
func nodeOf(n job.Node, reached bool) node {
	jobs, exclusive, pins, binds, overbook := !n.NoJobs, !n.NoExclusive, !n.NoPin, !n.NoMemBind, "yes"
	if n.NoOverbook {
		overbook = "no"
	}
	result := node{
		ID: &n.ID, Name: &n.Name, Aliases: n.Aliases, Reachable: &reached, Procs: n.Ranks, BoundProcs: n.BoundRanks, BusyCPUs: n.BusyCPUs, SharedCPUs: n.SharedCPUs, Gangs: gangsOf(&n), ExclusiveJob: n.ExclusivelyHeld,
		RunJobs: &jobs, Users: n.Users, Groups: n.Groups, MaxProcs: n.MaxProcs, Features: n.Features,
		Overbook: &overbook, Exclusive: &exclusive, CPUMap: n.CPUMap, UserMap: n.UserCPUMap, Pin: &pins, MemBind: &binds,
		Attributes: attributesOf(&n), Quality: n.SpeedQuality(), Classes: n.Classes, Flavors: n.Flavors, Reserve: n.Reserve, Global: n.InAllSets,
		CountThreads: n.CountThreads, Slots: n.Slots, MaxSlots: n.MaxSlots, Identity: n.Identity,
		MemTotal: n.Memory.Total, MemFree: n.Memory.Available,
		GPUs: n.GPUs, WithheldGPUs: n.WithheldGPUs, BusyGPUs: n.BusyGPUs, Confined: n.Confined,
	}
	if h := n.Memory.HugePages; h.Probed {
		result.HugePages = &hugePages{h.Size, h.Total, h.Free}
	}
	if n.Bind != nil {
		result.BindTo = n.Bind.Text
	}
	for i := range n.Load {
		if !reached || n.Load[i] < 0 {
			result.Load = append(result.Load, nil)
			continue
		}
		result.Load = append(result.Load, &n.Load[i])
	}
	result.Cores, result.Allowed = coresOf(n.Topology)
	return result
}

// coresOf returns the cores of a node and its usable CPUs. allowed is nil if all CPUs are usable.
func coresOf(t pin.Topology) (cores []core, allowed *[]int) {
	var usable []int
	all := true
	for _, c := range t.Cores {
		cores = append(cores, core{
			CPUs: c.AllCPUs(), NUMA: nullIfUnknown(c.NUMA), Package: nullIfUnknown(c.Package), L3: nullIfUnknown(c.L3), L2: nullIfUnknown(c.L2), Kind: c.Kind,
		})
		usable = append(usable, c.CPUs...)
		all = all && len(c.Unusable) == 0
	}
	if all {
		return cores, nil
	}
	slices.Sort(usable)
	return cores, &usable
}

// nullIfUnknown returns nil if n is negative, which stands for unknown. Otherwise it returns a pointer to n.
func nullIfUnknown(n int) *int {
	if n < 0 {
		return nil
	}
	return &n
}
