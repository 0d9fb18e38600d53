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
	"remshell/limits"
	"remshell/wire"
)

// baseEnv is what every rank of a node gets: later ones win (cli.md section 8).
func baseEnv(req job.Request, def job.NodeDef, chosen *job.NodeChoice) job.Env {
	env := req.BaseEnv
	env.Set = slices.Concat(env.Set, def.Env, req.GlobalEnv)
	if name := chosen.SetName(); name != "" {
		env.Set = append(env.Set, "MPIEXEC_NODESET="+name)
	}
	return def.BatchDir.TranslateEnv(env)
}

// memoryVariables are the variables that tell the ranks of a node what memory is theirs (aprun.md 4): in MB, what was asked for each or,
// where nothing was, what the node has by the number of ranks; and what was said of huge pages.
func memoryVariables(req job.Request, total int64, ranks int) (set []string) {
	each := req.Memory
	if each == 0 && ranks > 0 {
		each = total / int64(ranks)
	}
	if each > 0 {
		set = append(set, fmt.Sprintf("MPIEXEC_MEM_PER_RANK=%d", each>>20))
	}
	if req.HugePages != "" {
		set = append(set, "MPIEXEC_HUGEPAGES="+string(req.HugePages))
	}
	return set
}

// A Baseline is what is decided when a job begins, and holds for what it spawns, too.
type Baseline struct {
	Slots  int  // of all hosts that ranks of the job may be on
	Fabric bool // a host of the command line's ranks has a fast network, or a GPU; worlds that meet must have chosen the same network
}

func newBaseline(slots int, nodes []*host) Baseline {
	o := Baseline{Slots: slots}
	for _, n := range nodes {
		o.Fabric = o.Fabric || n.probe.Fabric || len(n.probe.GPUs) > 0 || n.probe.WithheldGPUs > 0
	}
	return o
}

// RanksPerApp counts the ranks of each section of a plan.
func RanksPerApp(p job.Plan, sections int) []int {
	counts := make([]int, sections)
	for _, n := range p.Nodes {
		for _, r := range n.Ranks {
			counts[r.App]++
		}
	}
	return counts
}

// appsOnNode are the apps as they start on a node: with so many ranks in all, and with what ranks
// are told, unless its entry says otherwise.
func appsOnNode(apps []job.App, counts []int, def job.NodeDef) []job.App {
	apps = slices.Clone(apps)
	for i := range apps {
		apps[i].N = counts[i]
		told := slices.DeleteFunc(slices.Clone(apps[i].DefaultEnv), func(assignment string) bool {
			name, _, _ := strings.Cut(assignment, "=")
			return slices.ContainsFunc(def.Env, func(a string) bool { return strings.HasPrefix(a, name+"=") })
		})
		apps[i].Env.Set = slices.Concat(apps[i].Env.Set, told)
		apps[i] = def.BatchDir.TranslateApp(apps[i])
	}
	return apps
}

// prepareMessage is what the i-th node of the plan has to know.
func (r *reservation) prepareMessage(i int, local string) *wire.Prepare {
	req, terms, p, np, n := r.req, r.env.RankOptions, r.plan, r.plan.Nodes[i], r.planHosts[i]
	m := &wire.Prepare{
		Job:   p.Job,
		Group: wire.Group{Name: string(p.Job), Size: p.Size, NodeCount: len(p.Nodes)},
		Node: wire.GroupNode{Index: i, OnlyNode: len(r.planHosts) == 1, SharedMachine: n.def.SeparateNode, Name: np.Name,
			Interface: cmp.Or(n.def.Interface, req.Interface), Slots: n.slotCount(), EarlierRanks: n.earlierRanks},
		Apps: appsOnNode(req.Apps, r.ranksPerApp, n.def), Ranks: np.Ranks,
		Process: wire.Process{BaseEnv: baseEnv(req, n.def, p.Choice), Compat: req.Compat, Umask: terms.Umask, OMPPlaces: req.OMPPlaces,
			BindingRequired: terms.BindingAsked || asksForBinding(req, n.def), BindingUnspecified: !terms.BindingAsked && saysNoBinding(req, n.def)},
		Streams: wire.Streams{Window: terms.Window(p.Size), MergeStderr: req.Streams.MergeStderr},
		PMI: wire.PMISetup{Mapping: p.Mapping, Universe: universeSize(req, r.baseline), Port: req.PMIPort, Trace: terms.TracePMI, Token: terms.Token,
			Slots: r.baseline.Slots, NoFabric: !r.baseline.Fabric, ExplainOffer: terms.ExplainOffer},
		Supervision: wire.Supervision{ReportBindings: terms.ReportBindings, SampleSmallRanks: req.EndPolicy.SampleSmallRanks, SampleUsage: req.EndPolicy.SampleUsage, SampleOften: req.ResourceLimits.AnyMatching(limits.Resource.IsSampled), ProcessOnly: req.SignalPolicy.ProcessOnly,
			KeepAll: req.EndPolicy.KeepAll, LeaveChildren: req.EndPolicy.LeaveChildren, KeepSessions: req.EndPolicy.KeepSessions, CleanIPC: req.EndPolicy.CleanIPC, BatchStarted: req.RM.ControlsHelpers(), BatchSignalsRanks: req.RM.SignalsRanks(), Grace: req.TimeLimits.Grace, Silence: n.Silence(r.env.SilenceLimit)},
		Claim: wire.Claim{Entry: claimOf(req, p, n), Ledger: req.Queue.LedgerDir, ClusterLedger: req.Queue.ClusterLedgerDir, MaxProcs: -1, IgnoreOthers: r.ignoresOthers(), KeepUntilBye: MayHaveNextAttempt(req) && r.spawnGroup == nil},
	}
	m.Process.BaseEnv.Set = append(m.Process.BaseEnv.Set, memoryVariables(req, n.probe.Memory.Total, n.earlierRanks+len(np.Ranks))...)
	m.Process.KernelLimits = kernelLimits(req.ResourceLimits)
	if !n.def.Local { // here ranks inherit ours
		m.Process.SoftLimits = req.SoftLimits
	}
	if n.def.MaxProcs != nil {
		m.Claim.MaxProcs = *n.def.MaxProcs
	}
	for _, rank := range np.Ranks {
		if terms.HasInput && req.Streams.ReadsStdin(rank.Rank) {
			m.Streams.Stdin = append(m.Streams.Stdin, rank.Rank)
		}
		if req.Streams.PTY.Contains(rank.Rank) {
			m.Streams.PTY = append(m.Streams.PTY, rank.Rank)
		}
	}
	if r.spawnGroup != nil {
		r.spawnGroup.applyTo(m, r.planHosts)
	}
	if n.def.Local && !m.Node.OnlyNode {
		m.Node.Address = local
	}
	if terms.TerminalSize != nil {
		m.Streams.Rows, m.Streams.Cols = terms.TerminalSize()
	}
	return m
}

// asksForBinding reports whether a request, or the entry of a host, says how its ranks are bound.
func asksForBinding(req job.Request, def job.NodeDef) bool {
	bind := req.Layout.Bind
	if def.Bind != nil {
		bind = *def.Bind
	}
	picked := slices.ContainsFunc(req.FixedPlacements, func(s job.FixedPlacement) bool { return s.Picks != nil })
	return bind.Text != "" && !bind.None && !bind.IfSupported || picked || req.Layout.Map.PEList != nil
}

// saysNoBinding reports whether neither a request nor the entry of a host says anything of how ranks, or their memory, are bound.
func saysNoBinding(req job.Request, def job.NodeDef) bool {
	l := req.Layout
	return l.Bind.Text == "" && def.Bind == nil && l.Mem.Text == "" && l.Map.PEList == nil && req.CPUMap == nil &&
		!slices.ContainsFunc(req.FixedPlacements, func(s job.FixedPlacement) bool { return s.Picks != nil }) &&
		!slices.ContainsFunc(req.Apps, func(app job.App) bool { return app.NUMA.IsSet() })
}

// MayHaveNextAttempt reports whether what a job claims stays until its end is decided upon: another attempt may
// follow. Where processes may stay that ranks leave behind, all is made anew.
func MayHaveNextAttempt(req job.Request) bool {
	return req.Restart.MaxRestarts != 0 && !req.EndPolicy.LeaveChildren
}

// ignoresOthers reports whether CPUs that another job has claimed since the survey are no obstacle:
// on this machine alone, where ranks share CPUs anyway, or others were faster each time.
func (r *reservation) ignoresOthers() bool {
	return r.req.LocalOnly && !r.req.NoOversubscribe && !r.req.Wait && (r.plan.Overbooked || r.claimsConflicted)
}

// claimOf is what the ledger of a node will say of the job; the helper adds the ranks.
func claimOf(req job.Request, p job.Plan, n *host) job.Claim {
	c := job.Claim{
		Job: p.Job, UID: req.User.UID, User: req.User.Name, LauncherHost: req.Queue.LauncherHost, LauncherPID: os.Getpid(), Node: n.def.Name,
		Nodes: len(p.Nodes), Size: p.Size, Exclusive: p.Exclusive, Since: time.Now(), Command: req.Command(), RM: req.RM.ID(),
		Class: req.Class, NodeSet: p.Choice.SetName(), Shares: req.Oversubscribe && !p.Exclusive,
	}
	c.CPUsPerRank, c.ExactPerNode = job.DepthAndShape(req.Apps)
	c.Movable = restart.WhyUnmovable(req) == ""
	if n.def.Local {
		c.ParentJob = req.Queue.ParentJob
	}
	return c
}

// slotCount is S of placement.md section 0: the slots of the whole node.
func (n *host) slotCount() int { return job.Node{NodeDef: n.def, Probe: n.probe}.SlotCount() }

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

// kernelLimits are those that the kernel enforces in each process.
func kernelLimits(all limits.Map) (bounds []job.KernelLimit) {
	for _, name := range all.Names() {
		if name.IsKernelLimit() {
			bounds = append(bounds, job.KernelLimit{Resource: name, Max: all[name]})
		}
	}
	return bounds
}
