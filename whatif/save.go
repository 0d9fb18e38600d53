package whatif

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

// Save writes what the probes of a real request found, and the request, so that the
// case can be planned again from the file, by anybody and without any node (9). The
// request must have one part. Everything that was said stands in the options, with
// defaults filled in; the environment of whoever replays it does not count.
func Save(w io.Writer, req job.Request, snap job.Snapshot) error {
	version := 1
	f := stateFile{
		Version: &version, Env: map[string]*string{}, Options: optionsOf(req),
		UID: req.User.UID, GID: req.User.GID, GIDs: req.User.GIDs, Ahead: snap.Ahead, Waited: snap.Waited.Seconds(), TryOut: req.Home && !req.Forbid,
	}
	f.Config.rules = rulesOf(req.Choosing)
	jobOptions(req.Choosing, &f.Options.choosing)
	sectionOptions(req.Apps[0].Share, &f.Options.choosing)
	if n := req.Apps[0].N; n > 0 {
		f.NP = number[word](n)
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
	for _, s := range req.RankFile {
		f.Spots = append(f.Spots, spot{Node: req.Nodes[s.Node].ID, CPUs: picked(s.Picks)})
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", " ")
	return encoder.Encode(f)
}

// picked writes down the CPUs of a rank.
func picked(picks []pin.Pick) string {
	var items []string
	for _, p := range picks {
		items = append(items, p.String())
	}
	return strings.Join(items, ";")
}

// number is a number as a word.
func number[T word | answer](n int) *T {
	w := T(strconv.Itoa(n))
	return &w
}

// optionsOf says as flags what a request says.
func optionsOf(req job.Request) options {
	pin, bind, app := !req.NoPin, !req.NoMemBind, req.Apps[0]
	o := options{
		TPP: number[word](max(1, app.Threads)), PPN: number[word](app.PerNode), Exclusive: &req.Exclusive, Overbook: &req.Overbook,
		Share: req.Oversubscribe,
		Loop:  &req.Loop, Wait: &req.Wait, Pin: &pin, MemBind: &bind,
	}
	if req.Overbook && !req.Exclusive {
		o.Exclusive = nil // "no" would be warned of
	}
	sort := req.Sort
	if sort == "" {
		sort = "NONE"
	}
	turns := make([]int, 0, len(req.Turns))
	for _, i := range req.Turns {
		turns = append(turns, req.Nodes[i].ID)
	}
	if req.Turns == nil {
		for _, n := range req.Nodes {
			turns = append(turns, n.ID)
		}
	}
	nodes, types, cpuMap := joined(turns), strings.Join(app.Types, ","), joined(req.Map)
	o.Sort, o.Nodes, o.Nodetype, o.Map = &sort, &nodes, &types, &cpuMap
	return o
}

func joined(numbers []int) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(numbers), "[]"), " ", ",")
}

// nodeOf writes a node down core by core.
func nodeOf(n job.Node, up bool) node {
	jobs, exclusive, pins, binds, overbook := !n.NoJobs, !n.NoExclusive, !n.NoPin, !n.NoMemBind, "yes"
	if n.NoOverbook {
		overbook = "no"
	}
	result := node{
		ID: &n.ID, Name: &n.Name, Aliases: n.Aliases, Up: &up, Procs: n.Procs, Seats: n.Seated, Busy: n.Busy, Share: n.Shared, Taken: n.Taken,
		RunJobs: &jobs, Users: n.Users, Groups: n.Groups, MaxProcs: n.MaxProcs, Features: n.Features,
		Overbook: &overbook, Exclusive: &exclusive, CPUMap: n.CPUMap, UserMap: n.UserMap, Pin: &pins, MemBind: &binds,
		Attributes: attributesOf(&n), Quality: n.SpeedQuality(), Classes: n.Classes, Flavors: n.Flavors, Reserve: n.Reserve, Global: n.Global,
		CountThreads: n.CountThreads, Slots: n.Slots, MaxSlots: n.MaxSlots, Identity: n.Identity,
		MemTotal: n.Memory.Total, MemFree: n.Memory.Available,
		GPUs: n.GPUs, Barred: n.Barred, BusyGPUs: n.BusyGPUs, Fenced: n.Fenced,
	}
	if h := n.Memory.Huge; h.Known {
		result.Huge = &hugePages{h.Size, h.Total, h.Free}
	}
	if n.Bind != nil {
		result.BindTo = n.Bind.Text
	}
	for i := range n.Load {
		if !up || n.Load[i] < 0 {
			result.Load = append(result.Load, nil)
			continue
		}
		result.Load = append(result.Load, &n.Load[i])
	}
	result.Cores, result.Allowed = coresOf(n.Topology)
	return result
}

// coresOf lists the cores, and the CPUs that may be used if not all may.
func coresOf(t pin.Topology) (cores []core, allowed *[]int) {
	var usable []int
	all := true
	for _, c := range t.Cores {
		cores = append(cores, core{
			CPUs: c.All(), NUMA: known(c.NUMA), Package: known(c.Package), L3: known(c.L3), L2: known(c.L2), Kind: c.Kind,
		})
		usable = append(usable, c.CPUs...)
		all = all && len(c.Shut) == 0
	}
	if all {
		return cores, nil
	}
	slices.Sort(usable)
	return cores, &usable
}

// known is a number as the file has it; -1, unknown, is none.
func known(n int) *int {
	if n < 0 {
		return nil
	}
	return &n
}
