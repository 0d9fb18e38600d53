package request

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"remshell/batch"
	"remshell/cli/option"
	"remshell/hostlist"
	"remshell/job"
	"remshell/plan/nodeset"
	"remshell/psi"
	"remshell/usererr"
)

// This file finds the candidates of a run and the options for placing ranks on them (placement.md 1.1 to 1.3).
// Exactly one of three sources is used:
//
//	-host, -hostfile        the named hosts, in their order; all of them must be usable. If this is the
//	                        local machine alone, ranks share its CPUs if there are too few
//	--nodes, PSI_*, none    nodes of the cluster file, or names; some of them may be down
//	no cluster file either  this machine

// addPlacement adds the candidate hosts and the placement options to the request. named contains the hosts that -host
// and -hostfile name.
func (w Inputs) addPlacement(req *job.Request, line option.Line, named []hostlist.Entry) ([]job.Note, error) {
	in := w.psiInput(line, len(named) > 0)
	in.HostFeatures = featuresOf(named)
	if line.Job.Simulate > 0 {
		if in.HostsNamed || in.Flags.Nodes != nil {
			return nil, &usererr.Error{Text: "--simulate-nodes cannot be used with options that list hosts", Remedy: "use only one of them; alias= in a host file also simulates several nodes on one host"}
		}
		in.HostsNamed = true // so that variables that name hosts are ignored
	}
	if in.HostsNamed && in.Flags.Nodes != nil {
		return nil, &usererr.Error{Text: "--nodes contradicts -host and -hostfile", Remedy: "use only one of them"}
	}
	choice, err := psi.Read(in)
	if err != nil {
		return choice.Warnings, err
	}
	req.Placement = choice.Placement
	req.NoSharedHosts = line.Job.ShareHosts == "no"
	req.WantAttributes = req.NodeSet.Policy != "" || req.Balance
	if err := w.setShares(req, in, line, choice); err != nil {
		return choice.Warnings, err
	}
	if slices.ContainsFunc(req.Apps, func(app job.App) bool { return app.ProbedFeatures != nil }) {
		req.WantAttributes = true
	}
	switch {
	case line.Job.Simulate > 0:
		req.LocalOnly = true
		req.Nodes = simulatedNodes(line.Job.Simulate)
	case in.HostsNamed:
		req.Nodes, err = w.candidatesOf(named, line.Job)
		w.setTaskCounts(req, line)
		w.setGrants(req.Nodes)
		req.LocalOnly = w.isLocalHostOnly(req.Nodes, line.Job.RMK)
		req.AllHosts = !req.LocalOnly && req.RM == nil && req.NodeSet.Policy == ""
	case in.NoConfig && choice.Source == "":
		req.LocalOnly = true
		req.Nodes = []job.NodeDef{{Name: w.Local.Names[0], Host: "localhost", Local: true, Slots: line.Job.Slots, Origin: "no hosts were given"}}
	default:
		req.SkipUnreachable = true // a host that is down is left out (SSH-6)
		req.Nodes, req.HostEntries = w.nodesOfEntries(choice, line.Job)
	}
	if req.LocalOnly {
		choice.Warnings = slices.DeleteFunc(choice.Warnings, func(n job.Note) bool { return n.Code == "overbook-implies-exclusive" })
	}
	return choice.Warnings, err
}

// NodeSets returns the node-set request of a command line after all sources are merged, and where each part
// was set (which-hosts.md 15). The command line need not have a program.
func (w Inputs) NodeSets(line option.Line) (nodeset.Setting, error) {
	fixed, err := newRankPlacement(line, w.OpenFile)
	if err != nil {
		return nodeset.Setting{}, err
	}
	named, err := w.appHosts(line.Apps[0], w.OpenFile, false)
	if err != nil {
		return nodeset.Setting{}, err
	}
	in := w.psiInput(line, len(named) > 0 || w.Allocation != nil && batch.Known(line.Job.RMK) || line.Job.Simulate > 0)
	in.RanksPlaced = in.RanksPlaced || fixed.option != ""
	choice, err := psi.Read(in)
	return choice.NodeSet, err
}

// isLocalHostOnly reports whether this machine is the only named host, is not listed in a cluster file, and is not
// part of a batch system's job.
func (w Inputs) isLocalHostOnly(nodes []job.NodeDef, rmk string) bool {
	if batch.Known(rmk) {
		return false
	}
	cluster := w.nodesByName()
	for _, n := range nodes {
		for _, name := range append([]string{n.Host}, w.Local.Names...) {
			if _, managed := cluster[strings.ToLower(name)]; managed || !n.Local {
				return false
			}
		}
	}
	return true
}

// simulatedNodes returns the given number of nodes, all of which are really this machine (rule HOST-8).
func simulatedNodes(count int) (nodes []job.NodeDef) {
	for i := range count {
		nodes = append(nodes, job.NodeDef{ID: i, Name: "sim" + strconv.Itoa(i), Host: "localhost", Local: true, SeparateNode: true, Origin: "--simulate-nodes"})
	}
	return nodes
}

// psiInput returns the input for package psi, which reads ParaStation's placement variables. listed is true
// if other options or variables name the hosts.
func (w Inputs) psiInput(line option.Line, listed bool) psi.Input {
	in := psi.Input{
		NoConfig: w.Cluster == nil, HostsNamed: listed, Flags: psiFlags(line.Job, line.Apps[0]),
		Env: w.lookupUserEnv, Open: ReadTexts(w.OpenFile), User: w.Local.User,
		RanksPlaced: line.Job.RankFile != "" || line.Job.RankMap != "" || line.Job.MapBy.Seq,
	}
	if w.Cluster != nil {
		class, _ := w.jobClass(line.Job) // jobLimits has reported its error
		in.Rules = w.Cluster.Rules
		in.Nodes, in.Sort = w.Cluster.Nodes, cmp.Or(class.Sort, w.Cluster.Sort)
	}
	ranks := 0
	for _, s := range line.Apps {
		ranks += s.N
	}
	if ranks > 0 {
		in.NP = strconv.Itoa(ranks)
	}
	return in
}

// setShares sets how many CPUs and GPUs and how much memory each rank of each app context needs (placement.md
// 5.7).
func (w Inputs) setShares(req *job.Request, in psi.Input, line option.Line, choice psi.Settings) error {
	for i := range req.Apps {
		app := &req.Apps[i]
		app.RankNeeds = choice.RankNeeds
		app.Arch = string(line.Apps[0].Arch)
		if i > 0 {
			in.Flags = psiFlags(line.Job, line.Apps[i])
			var err error
			if app.RankNeeds, err = psi.ReadApp(in); err != nil {
				return err
			}
			app.Arch = string(line.Apps[i].Arch)
		}
		app.GPUs = int(line.Apps[i].GPUs)
		given := app.CPUsPerRankOrigin != "" && app.CPUsPerRankOrigin != ompThreads
		addShareVariables(req, app, given, w.batchThreads())
	}
	return nil
}

// nodesByName maps each name and alias, in lower case, to the index of the node in the cluster file.
func (w Inputs) nodesByName() map[string]int {
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

// applyNodeConfig applies the cluster file's settings for a host to def: the policy of the host and how to reach it. If
// def already has an address, from a host list, it keeps it. If noFork is true, this machine is reached by ssh, like
// any other host.
func (w Inputs) applyNodeConfig(def *job.NodeDef, configured job.NodeDef, noFork bool) {
	features := def.Features
	def.NodePolicy = configured.NodePolicy
	def.Features = slices.Concat(configured.Features, features)
	if def.Local {
		return
	}
	def.Host, def.Address = configured.Host, cmp.Or(def.Address, configured.Address)
	def.Local = !noFork && def.User == "" && def.Port == 0 && w.Local.Matches(cmp.Or(def.Address, def.Host))
}

// nodesOfEntries returns the nodes of choice.Entries without duplicates. The result entries contains, for each host
// entry, the index of its node in nodes.
func (w Inputs) nodesOfEntries(choice psi.Settings, j option.JobOptions) (nodes []job.NodeDef, entries []int) {
	at := make(map[int]int)
	for _, entry := range choice.Entries {
		i, known := at[entry]
		if !known {
			i = len(nodes)
			at[entry] = i
			def := choice.Nodes[entry]
			target := def.Host
			if def.Address != "" {
				target = def.Address
			}
			def.Local = !j.NoAutofork && w.Local.Matches(target)
			nodes = append(nodes, def)
		}
		entries = append(entries, i)
	}
	return nodes, entries
}
