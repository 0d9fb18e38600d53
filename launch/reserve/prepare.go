package reserve

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"remshell/job"
	"remshell/launch/restart"
	"remshell/limit"
	"remshell/wire"
)

// base is what every rank of a node gets: later ones win (cli.md section 8).
func base(req job.Request, def job.NodeDef, chosen *job.Choice) job.Env {
	env := req.Base
	env.Set = slices.Concat(env.Set, def.Env, req.Given)
	if name := chosen.SetName(); name != "" {
		env.Set = append(env.Set, "MPIEXEC_NODESET="+name)
	}
	return def.Folder.Env(env)
}

// memoryTold are the variables that tell the ranks of a node what memory is theirs (aprun.md 4): in MB, what was asked for each or,
// where nothing was, what the node has by the number of ranks; and what was said of huge pages.
func memoryTold(req job.Request, total int64, ranks int) (set []string) {
	each := req.Memory
	if each == 0 && ranks > 0 {
		each = total / int64(ranks)
	}
	if each > 0 {
		set = append(set, fmt.Sprintf("MPIEXEC_MEM_PER_RANK=%d", each>>20))
	}
	if req.Huge != "" {
		set = append(set, "MPIEXEC_HUGEPAGES="+string(req.Huge))
	}
	return set
}

// An Outset is what is decided when a job begins, and holds for what it spawns, too.
type Outset struct {
	Slots  int  // of all hosts that ranks of the job may be on
	Fabric bool // a host of the command line's ranks has a fast network, or a GPU; worlds that meet must have chosen the same network
}

func newOutset(slots int, nodes []*host) Outset {
	o := Outset{Slots: slots}
	for _, n := range nodes {
		o.Fabric = o.Fabric || n.probe.Fabric || len(n.probe.GPUs) > 0 || n.probe.Barred > 0
	}
	return o
}

// PerSection counts the ranks of each section of a plan.
func PerSection(p job.Plan, sections int) []int {
	counts := make([]int, sections)
	for _, n := range p.Nodes {
		for _, r := range n.Ranks {
			counts[r.App]++
		}
	}
	return counts
}

// programs are the apps as they start on a node: with so many ranks in all, and with what ranks
// are told, unless its entry says otherwise.
func programs(apps []job.App, counts []int, def job.NodeDef) []job.App {
	apps = slices.Clone(apps)
	for i := range apps {
		apps[i].N = counts[i]
		told := slices.DeleteFunc(slices.Clone(apps[i].Told), func(assignment string) bool {
			name, _, _ := strings.Cut(assignment, "=")
			return slices.ContainsFunc(def.Env, func(a string) bool { return strings.HasPrefix(a, name+"=") })
		})
		apps[i].Env.Set = slices.Concat(apps[i].Env.Set, told)
		apps[i] = def.Folder.App(apps[i])
	}
	return apps
}

// preparation is what the i-th node of the plan has to know.
func (r *reservation) preparation(i int, local string) *wire.Prepare {
	req, terms, p, np, n := r.req, r.env.Terms, r.plan, r.plan.Nodes[i], r.chosen[i]
	m := &wire.Prepare{
		Job:   p.Job,
		Group: wire.Group{Name: string(p.Job), Size: p.Size, Nodes: len(p.Nodes)},
		Node: wire.Member{Index: i, Alone: len(r.chosen) == 1, Apart: n.def.Apart, Name: np.Name,
			Iface: cmp.Or(n.def.Iface, req.Iface), Slots: n.size(), Earlier: n.earlier},
		Apps: programs(req.Apps, r.counts, n.def), Ranks: np.Ranks,
		Process: wire.Process{Base: base(req, n.def, p.Choice), Compat: req.Compat, Umask: terms.Umask, Places: req.Places,
			Bound: terms.Pin || asksToBind(req, n.def), Loose: !terms.Pin && leavesBinding(req, n.def)},
		Streams: wire.Streams{Window: terms.Window(p.Size), Merge: req.Streams.Merge},
		PMI: wire.PMISetup{Mapping: p.Mapping, Universe: universe(req, r.outset), Port: req.Port, Trace: terms.Traced, Token: terms.Token,
			Slots: r.outset.Slots, NoFabric: !r.outset.Fabric, Told: terms.Explain},
		Supervision: wire.Supervision{Report: terms.Report, Peaks: req.Ends.Peaks, Samples: req.Ends.Samples, Often: req.Bounds.Any(limit.Resource.Sampled), Leader: req.Signals.Leader,
			KeepAll: req.Ends.KeepAll, Children: req.Ends.Children, Sessions: req.Ends.Sessions, CleanIPC: req.Ends.CleanIPC, Held: req.RM.Holds(), Twice: req.RM.TellsRanks(), Grace: req.Limits.Grace, Silence: n.Silence(r.env.Silence)},
		Claim: wire.Claim{Entry: claimOf(req, p, n), Ledger: req.Queue.Ledger, Noted: req.Queue.Noted, Most: -1, Shares: r.shares(), Lasts: Lasts(req) && r.spawn == nil},
	}
	m.Process.Base.Set = append(m.Process.Base.Set, memoryTold(req, n.probe.Memory.Total, n.earlier+len(np.Ranks))...)
	m.Process.Bounds = kernelBounds(req.Bounds)
	if !n.def.Local { // here ranks inherit ours
		m.Process.Soft = req.Soft
	}
	if n.def.MaxProcs != nil {
		m.Claim.Most = *n.def.MaxProcs
	}
	for _, rank := range np.Ranks {
		if terms.Input && req.Streams.Reads(rank.Rank) {
			m.Streams.Stdin = append(m.Streams.Stdin, rank.Rank)
		}
		if req.Streams.PTY.Has(rank.Rank) {
			m.Streams.PTY = append(m.Streams.PTY, rank.Rank)
		}
	}
	if r.spawn != nil {
		r.spawn.onto(m, r.chosen)
	}
	if n.def.Local && !m.Node.Alone {
		m.Node.Address = local
	}
	if terms.Size != nil {
		m.Streams.Rows, m.Streams.Cols = terms.Size()
	}
	return m
}

// asksToBind reports whether a request, or the entry of a host, says how its ranks are bound.
func asksToBind(req job.Request, def job.NodeDef) bool {
	bind := req.Layout.Bind
	if def.Bind != nil {
		bind = *def.Bind
	}
	picked := slices.ContainsFunc(req.RankFile, func(s job.Spot) bool { return s.Picks != nil })
	return bind.Text != "" && !bind.None && !bind.IfSupported || picked || req.Layout.Map.Only != nil
}

// leavesBinding reports whether neither a request nor the entry of a host says anything of how ranks, or their memory, are bound.
func leavesBinding(req job.Request, def job.NodeDef) bool {
	l := req.Layout
	return l.Bind.Text == "" && def.Bind == nil && l.Mem.Text == "" && l.Map.Only == nil && req.Map == nil &&
		!slices.ContainsFunc(req.RankFile, func(s job.Spot) bool { return s.Picks != nil }) &&
		!slices.ContainsFunc(req.Apps, func(app job.App) bool { return app.NUMA.Confines() })
}

// Lasts reports whether what a job claims stays until its end is decided upon: another attempt may
// follow. Where processes may stay that ranks leave behind, all is made anew.
func Lasts(req job.Request) bool {
	return req.Restart.Most != 0 && !req.Ends.Children
}

// shares reports whether CPUs that another job has claimed since the survey are no obstacle:
// on this machine alone, where ranks share CPUs anyway, or others were faster each time.
func (r *reservation) shares() bool {
	return r.req.Home && !r.req.Forbid && !r.req.Wait && (r.plan.Overbooked || r.outran)
}

// claimOf is what the ledger of a node will say of the job; the helper adds the ranks.
func claimOf(req job.Request, p job.Plan, n *host) job.Claim {
	c := job.Claim{
		Job: p.Job, UID: req.User.UID, User: req.User.Name, From: req.Queue.From, Launcher: os.Getpid(), Node: n.def.Name,
		Nodes: len(p.Nodes), Size: p.Size, Exclusive: p.Exclusive, Since: time.Now(), Command: req.Command(), RM: req.RM.ID(),
		Class: req.Class, NodeSet: p.Choice.SetName(), Shares: req.Oversubscribe && !p.Exclusive,
	}
	c.Depth, c.Shape = job.Extent(req.Apps)
	c.Movable = restart.Unmovable(req) == ""
	if n.def.Local {
		c.Inside = req.Queue.Inside
	}
	return c
}

// size is S of placement.md section 0: the slots of the whole node.
func (n *host) size() int { return job.Node{NodeDef: n.def, Probe: n.probe}.Size() }

// localAddress is the address under which other nodes reach this machine: the one
// our connections to them come from. If this machine plays all nodes, that is loopback.
func (r *reservation) localAddress(nodes []*host) string {
	for _, n := range nodes {
		if ip := n.LocalIP(); !n.def.Local && ip != nil && !ip.IsLoopback() {
			return ip.String()
		}
	}
	if !slices.ContainsFunc(r.hosts, func(n *host) bool { return !n.def.Local }) {
		return "127.0.0.1"
	}
	return ""
}

// kernelBounds are those that the kernel enforces in each process.
func kernelBounds(all limit.Bounds) (bounds []job.Bound) {
	for _, name := range all.Names() {
		if name.Kernel() {
			bounds = append(bounds, job.Bound{Resource: name, Most: all[name]})
		}
	}
	return bounds
}
