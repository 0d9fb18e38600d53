package request

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"remshell/batch"
	"remshell/cli/option"
	"remshell/fault"
	"remshell/hostlist"
	"remshell/job"
	"remshell/plan/nodeset"
	"remshell/psi"
)

// This file finds the candidates of a run, and what was said about placing ranks on
// them (placement.md 1.1 to 1.3). Three sources exclude one another:
//
//	-host, -hostfile        the hosts named, in their order; all of them are needed. If that
//	                        is this machine alone, its CPUs are shared rather than missed
//	--nodes, PSI_*, none    nodes of the cluster file, or names; some may be down
//	nothing at all          this machine, as a try-out

// place fills in the candidates and all that concerns placement. named are the hosts
// of -host and -hostfile.
func (w World) place(req *job.Request, line option.Line, named []hostlist.Entry) ([]job.Note, error) {
	in := w.input(line, len(named) > 0)
	in.Types = featuresOf(named)
	if line.Job.Simulate > 0 {
		if in.Listed || in.Flags.Nodes != nil {
			return nil, &fault.Error{Text: "--simulate-nodes contradicts options that name hosts", Remedy: "keep one; alias= in a host file makes nodes of one host, too"}
		}
		in.Listed = true // no variable names others
	}
	if in.Listed && in.Flags.Nodes != nil {
		return nil, &fault.Error{Text: "--nodes contradicts -host and -hostfile", Remedy: "keep one"}
	}
	choice, err := psi.Read(in)
	if err != nil {
		return choice.Warnings, err
	}
	req.Placing = choice.Placing
	req.Separate = line.Job.ShareHosts == "no"
	req.Traits = req.Set.Policy != "" || req.Balance
	if err := w.shares(req, in, line, choice); err != nil {
		return choice.Warnings, err
	}
	switch {
	case line.Job.Simulate > 0:
		req.Home = true
		req.Nodes = simulated(line.Job.Simulate)
	case in.Listed:
		req.Nodes, err = w.listed(named, line.Job)
		w.meant(req, line)
		w.fence(req.Nodes)
		req.Home = w.isHome(req.Nodes, line.Job.RMK)
		req.AllHosts = !req.Home && req.RM == nil && req.Set.Policy == ""
	case in.AdHoc && choice.From == "":
		req.Home = true
		req.Nodes = []job.NodeDef{{Name: w.Local.Names[0], Host: "localhost", Local: true, Slots: line.Job.Slots, Origin: "no host named"}}
	default:
		req.Skip = true // one that is down is a candidate less, no more (SSH-6)
		req.Nodes, req.Turns = w.chosen(choice, line.Job)
	}
	if req.Home {
		choice.Warnings = slices.DeleteFunc(choice.Warnings, func(n job.Note) bool { return n.Code == "overbook-implies-exclusive" })
	}
	return choice.Warnings, err
}

// Sets tells which request for node sets counts for a command line, and who said what of it (which-hosts.md 15). The line
// need not have a program.
func (w World) Sets(line option.Line) (nodeset.Setting, error) {
	told, err := newRankPlacement(line, w.Open)
	if err != nil {
		return nodeset.Setting{}, err
	}
	named, err := w.hosts(line.Sections[0], w.Open, false)
	if err != nil {
		return nodeset.Setting{}, err
	}
	in := w.input(line, len(named) > 0 || w.Grant != nil && batch.Known(line.Job.RMK) || line.Job.Simulate > 0)
	in.Placed = in.Placed || told.by != ""
	choice, err := psi.Read(in)
	return choice.Set, err
}

// isHome reports whether hosts that were named are this machine alone, which neither a
// cluster file nor a batch system has in hand.
func (w World) isHome(nodes []job.NodeDef, rmk string) bool {
	if batch.Known(rmk) {
		return false
	}
	cluster := w.byName()
	for _, n := range nodes {
		for _, name := range append([]string{n.Host}, w.Local.Names...) {
			if _, managed := cluster[strings.ToLower(name)]; managed || !n.Local {
				return false
			}
		}
	}
	return true
}

// simulated are so many nodes that this machine plays (HOST-8).
func simulated(count int) (nodes []job.NodeDef) {
	for i := range count {
		nodes = append(nodes, job.NodeDef{ID: i, Name: "sim" + strconv.Itoa(i), Host: "localhost", Local: true, Apart: true, Origin: "--simulate-nodes"})
	}
	return nodes
}

// input is what package psi judges.
func (w World) input(line option.Line, listed bool) psi.Input {
	in := psi.Input{
		AdHoc: w.Cluster == nil, Listed: listed, Flags: flags(line.Job, line.Sections[0]),
		Env: w.userEnv, Open: Texts(w.Open), User: w.Local.User,
		Placed: line.Job.RankFile != "" || line.Job.RankMap != "" || line.Job.MapBy.Seq,
	}
	if w.Cluster != nil {
		class, _ := w.class(line.Job) // one that is refused was told by bounds
		in.Rules = w.Cluster.Rules
		in.Nodes, in.Sort = w.Cluster.Nodes, cmp.Or(class.Sort, w.Cluster.Sort)
	}
	ranks := 0
	for _, s := range line.Sections {
		ranks += s.N
	}
	if ranks > 0 {
		in.NP = strconv.Itoa(ranks)
	}
	return in
}

// shares tells each section what its ranks need of a node (5.7).
func (w World) shares(req *job.Request, in psi.Input, line option.Line, choice psi.Choice) error {
	for i := range req.Apps {
		app := &req.Apps[i]
		app.Share = choice.Share
		app.Arch = string(line.Sections[0].Arch)
		if i > 0 {
			in.Flags = flags(line.Job, line.Sections[i])
			var err error
			if app.Share, err = psi.Part(in); err != nil {
				return err
			}
			app.Arch = string(line.Sections[i].Arch)
		}
		app.GPUs = int(line.Sections[i].GPUs)
		given := app.ThreadsFrom != "" && app.ThreadsFrom != ompThreads
		tellShare(req, app, given, w.slotThreads())
	}
	return nil
}

// byName finds the nodes of the cluster file by names and aliases in lower case.
func (w World) byName() map[string]int {
	if w.Cluster == nil {
		return nil
	}
	index := make(map[string]int, len(w.Cluster.Nodes))
	for i, n := range w.Cluster.Nodes {
		for _, name := range append([]string{n.Name}, n.Aliases...) {
			index[strings.ToLower(name)] = i
		}
	}
	return index
}

// configure gives a host of a list what the cluster file says of it: its policy and how
// it is reached. An address in the list is the user's last word.
func (w World) configure(def *job.NodeDef, configured job.NodeDef, noFork bool) {
	features := def.Features
	def.Policy = configured.Policy
	def.Features = slices.Concat(configured.Features, features)
	if def.Local {
		return
	}
	def.Host, def.Address = configured.Host, cmp.Or(def.Address, configured.Address)
	def.Local = !noFork && def.User == "" && def.Port == 0 && w.Local.Is(cmp.Or(def.Address, def.Host))
}

// chosen are the nodes that the turns of a choice name, and no others; the turns
// count in them.
func (w World) chosen(choice psi.Choice, j option.Job) (nodes []job.NodeDef, turns []int) {
	at := make(map[int]int)
	for _, turn := range choice.Turns {
		i, known := at[turn]
		if !known {
			i = len(nodes)
			at[turn] = i
			def := choice.Nodes[turn]
			reach := def.Host
			if def.Address != "" {
				reach = def.Address
			}
			def.Local = !j.NoAutofork && w.Local.Is(reach)
			nodes = append(nodes, def)
		}
		turns = append(turns, i)
	}
	return nodes, turns
}
