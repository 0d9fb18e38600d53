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

// baseEnv returns the environment that all ranks on a node have in common. Later assignments of a variable override
// earlier ones (cli.md section 8).
func baseEnv(req job.Request, def job.NodeDef, chosen *job.NodeChoice) job.Env {
	env := req.BaseEnv
	env.Set = slices.Concat(env.Set, def.Env, req.GlobalEnv)
	if name := chosen.SetName(); name != "" {
		env.Set = append(env.Set, "MPIEXEC_NODESET="+name)
	}
	return def.BatchDir.TranslateEnv(env)
}

// memoryVariables returns the variables MPIEXEC_MEM_PER_RANK and MPIEXEC_HUGEPAGES (aprun.md 4). The former is the
// memory of each rank in MB: the requested amount or, by default, the node's total memory divided by the number of its
// ranks. The latter is left out unless the user has requested huge pages.
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

// A Baseline contains properties of a job that are fixed at its start and also apply to the ranks that it spawns
// later.
type Baseline struct {
	Slots  int  // slots of all hosts on which ranks of the job may run
	Fabric bool // a host of the first group has a fast network or a GPU; groups that connect must have chosen the same network
}

func newBaseline(slots int, nodes []*host) Baseline {
	b := Baseline{Slots: slots}
	for _, n := range nodes {
		b.Fabric = b.Fabric || n.probe.Fabric || len(n.probe.GPUs) > 0 || n.probe.WithheldGPUs > 0
	}
	return b
}

// RanksPerApp returns how many ranks of a plan each app context has.
func RanksPerApp(p job.Plan, apps int) []int {
	counts := make([]int, apps)
	for _, n := range p.Nodes {
		for _, r := range n.Ranks {
			counts[r.App]++
		}
	}
	return counts
}

// appsOnNode returns copies of the app contexts, adapted to one node. counts contains the number of ranks of each app
// context on the node. A default value of an environment variable is left out if the node's definition sets the same
// variable.
func appsOnNode(apps []job.App, counts []int, def job.NodeDef) []job.App {
	apps = slices.Clone(apps)
	for i := range apps {
		apps[i].N = counts[i]
		defaults := slices.DeleteFunc(slices.Clone(apps[i].DefaultEnv), func(assignment string) bool {
			name, _, _ := strings.Cut(assignment, "=")
			return slices.ContainsFunc(def.Env, func(a string) bool { return strings.HasPrefix(a, name+"=") })
		})
		apps[i].Env.Set = slices.Concat(apps[i].Env.Set, defaults)
		apps[i] = def.BatchDir.TranslateApp(apps[i])
	}
	return apps
}

// prepareMessage returns the Prepare message for node i of the plan. local is the address at which other nodes reach
// this machine.
func (r *reservation) prepareMessage(i int, local string) *wire.Prepare {
	req, terms, p, np, n := r.req, r.env.RankOptions, r.plan, r.plan.Nodes[i], r.planHosts[i]
	m := &wire.Prepare{
		Job:   p.Job,
		Group: wire.Group{Name: string(p.Job), Size: p.Size, NodeCount: len(p.Nodes)},
		Node: wire.GroupNode{Index: i, OnlyNode: len(r.planHosts) == 1, SharedMachine: n.def.SeparateNode, Name: np.Name,
			Interface: cmp.Or(n.def.Interface, req.Interface), Slots: n.slotCount(), EarlierRanks: n.earlierRanks},
		Apps: appsOnNode(req.Apps, r.ranksPerApp, n.def), Ranks: np.Ranks,
		Process: wire.Process{BaseEnv: baseEnv(req, n.def, p.Choice), Compat: req.Compat, Umask: terms.Umask, OMPPlaces: req.OMPPlaces,
			BindingRequired: terms.BindingAsked || asksForBinding(req, n.def), BindingUnspecified: !terms.BindingAsked && isBindingUnspecified(req, n.def)},
		Streams: wire.Streams{Window: terms.Window(p.Size), MergeStderr: req.Streams.MergeStderr},
		PMI: wire.PMISetup{Mapping: p.Mapping, Universe: universeSize(req, r.baseline), Port: req.PMIPort, Token: terms.Token,
			Slots: r.baseline.Slots, NoFabric: !r.baseline.Fabric, ExplainOffer: terms.ExplainOffer},
		Supervision: wire.Supervision{ProcessOnly: req.SignalPolicy.ProcessOnly,
			KeepAll: req.EndPolicy.KeepAll, LeaveChildren: req.EndPolicy.LeaveChildren, KeepSessions: req.EndPolicy.KeepSessions, BatchStarted: req.RM.ControlsHelpers(), BatchSignalsRanks: req.RM.SignalsRanks(), Grace: req.TimeLimits.Grace, Silence: n.MaxSilence(r.env.SilenceLimit)},
		Claim:    wire.Claim{Entry: claimOf(req, p, n, len(np.Ranks)), Ledger: req.Queue.LedgerDir, ClusterLedger: req.Queue.ClusterLedgerDir, MaxProcs: -1, IgnoreOthers: r.ignoresOthers(), KeepUntilBye: MayHaveNextAttempt(req) && r.spawnGroup == nil},
		Settings: terms.Settings,
	}
	m.Process.BaseEnv.Set = append(m.Process.BaseEnv.Set, memoryVariables(req, n.probe.Memory.Total, n.earlierRanks+len(np.Ranks))...)
	m.Process.KernelLimits = kernelLimits(req.ResourceLimits)
	if !n.def.Local { // on this machine ranks inherit mpiexec's
		m.Process.SoftLimits, m.Process.Priority = req.SoftLimits, req.Priority
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

// asksForBinding reports whether the request or the node's definition asks for ranks to be bound to CPUs.
func asksForBinding(req job.Request, def job.NodeDef) bool {
	bind := req.Layout.Bind
	if def.Bind != nil {
		bind = *def.Bind
	}
	picked := slices.ContainsFunc(req.FixedPlacements, func(s job.FixedPlacement) bool { return s.Picks != nil })
	return bind.Text != "" && !bind.None && !bind.IfSupported || picked || req.Layout.Map.PEList != nil
}

// isBindingUnspecified reports whether neither the request nor the node's definition mentions binding of ranks or
// memory.
func isBindingUnspecified(req job.Request, def job.NodeDef) bool {
	l := req.Layout
	return l.Bind.Text == "" && def.Bind == nil && l.Mem.Text == "" && l.Map.PEList == nil && req.CPUMap == nil &&
		!slices.ContainsFunc(req.FixedPlacements, func(s job.FixedPlacement) bool { return s.Picks != nil }) &&
		!slices.ContainsFunc(req.Apps, func(app job.App) bool { return app.NUMA.IsSet() })
}

// MayHaveNextAttempt reports whether the job may have another attempt (one run of all ranks) that reuses its claims. It
// returns false if processes may outlive their ranks (LeaveChildren).
func MayHaveNextAttempt(req job.Request) bool {
	return req.Restart.MaxRestarts != 0 && !req.EndPolicy.LeaveChildren
}

// ignoresOthers reports whether the job may claim CPUs that another job has claimed since mpiexec asked the nodes which
// CPUs are free. Only a job that runs on this machine alone may do so. In addition, its ranks must share CPUs anyway,
// or this must be its last try to claim its nodes.
func (r *reservation) ignoresOthers() bool {
	return r.req.LocalOnly && !r.req.NoOversubscribe && !r.req.Wait && (r.plan.Overbooked || r.claimsConflicted)
}

// claimOf returns the claim that a node's helper records for this job. ranks is the number of ranks on the
// node. The helper adds the list of the ranks.
func claimOf(req job.Request, p job.Plan, n *host, ranks int) job.Claim {
	c := job.Claim{
		Job: p.Job, UID: req.User.UID, User: req.User.Name, LauncherHost: req.Queue.LauncherHost, LauncherPID: os.Getpid(), Node: n.def.Name,
		Nodes: len(p.Nodes), Size: p.Size, Exclusive: p.Exclusive, Since: time.Now(), Command: req.Command(), RM: req.RM.ID(),
		Class: req.Class, NodeSet: p.Choice.SetName(), Shares: req.Oversubscribe && !p.Exclusive,
	}
	c.CPUsPerRank, c.ExactPerNode = job.DepthAndShape(req.Apps)
	if p.Gang != nil {
		g := *p.Gang
		g.Memory = req.Memory * int64(ranks)
		c.Gang = &g
	}
	c.Movable = restart.WhyUnmovable(req) == ""
	if n.def.Local {
		c.ParentJob = req.Queue.ParentJob
	}
	return c
}

// slotCount returns the number of slots of the whole node (S in placement.md section 0).
func (n *host) slotCount() int { return job.Node{NodeDef: n.def, Probe: n.probe}.SlotCount() }

// localAddress returns the address at which other nodes reach this machine: the local address of the connections to
// them. It returns the loopback address if all nodes are this machine, and "" if the address is unknown.
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

// kernelLimits selects the limits that the kernel can enforce for each process (setrlimit).
func kernelLimits(all limits.Map) (kernel []job.KernelLimit) {
	for _, name := range all.Names() {
		if name.IsKernelLimit() {
			kernel = append(kernel, job.KernelLimit{Resource: name, Max: all[name]})
		}
	}
	return kernel
}
