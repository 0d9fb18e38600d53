package request

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"remshell/batch"
	"remshell/cli/option"
	"remshell/hostlist"
	"remshell/idset"
	"remshell/job"
	"remshell/pin"
	"remshell/text"
	"remshell/usererr"
)

// This file lets a job inside an allocation of a batch system use the hosts of the allocation (rule
// HOST-10). Hosts come from the first of these that has some:
//
//	options, arguments, PSI_*  >  allocation  >  variables  >  this machine

// allocInputs returns the inputs from which package batch finds an allocation, which is the list of hosts
// that a batch system has granted.
func (w Inputs) allocInputs() batch.Inputs {
	return batch.Inputs{Env: w.lookupEnv, Open: w.OpenFile, Run: w.RunTool}
}

// BatchInputs returns the inputs from which package batch finds programs of a batch system.
func (w Inputs) BatchInputs() batch.Inputs { return w.allocInputs() }

// UseAllocation selects the hosts of the batch system's allocation if the user names no hosts. It also stores
// the allocation for Make. note describes the choice, or is empty. Inside a rank of another mpiexec it does
// nothing, because the allocation belongs to the outer job (rule RM-2).
func (w *Inputs) UseAllocation(line option.Line) (out option.Line, note string, err error) {
	w.Allocation = nil
	wish, err := allocationRequest(line, nil)
	if err != nil {
		return line, "", err
	}
	named := namesRelativeHosts(line)
	system := w.wantedBatchSystem(line, named)
	if asked := allocationOption(line); system == "" && asked != "" {
		return line, "", &usererr.Error{Text: asked + " works only with hosts that a batch system allocated, but this job uses other hosts", Remedy: "leave out " + asked}
	}
	if system != "" {
		if err := w.readAllocation(system, wish); err != nil {
			return line, "", err
		}
	}
	auto := line.Job.RMK == "" || line.Job.RMK == "auto"
	line.Apps = slices.Clone(line.Apps)
	switch {
	case named:
		line = w.withTaskWidth(line)
		line.Job.RMK = ""
		return line, "", resolveRelative(line.Apps, w.allocatedHosts())
	case w.Allocation != nil:
		return w.withAllocatedHosts(line, system, auto)
	case auto:
		line.Job.RMK = ""
	}
	return line, "", nil
}

// withAllocatedHosts returns the line with the hosts of the allocation. auto is true if no option requests
// the allocation.
func (w Inputs) withAllocatedHosts(line option.Line, system string, auto bool) (out option.Line, note string, err error) {
	line.Job.RMK = system
	if auto {
		line.Job.Nodes, line.Job.Simulate = "", 0
		for i := range line.Apps { // the allocation overrides variables
			line.Apps[i].Host, line.Apps[i].HostFile = nil, ""
		}
		owner := batch.JobName(w.Allocation.System, w.Allocation.Job)
		note = fmt.Sprintf("mpiexec uses the hosts of %s (%s); to use other hosts, add -rmk none", owner, w.Allocation.Source)
	}
	if slices.ContainsFunc(line.Apps, func(s option.AppContext) bool { return s.Host != nil || s.HostFile != "" }) {
		return line, "", &usererr.Error{Text: fmt.Sprintf("-rmk %s contradicts -host and -hostfile", system), Remedy: "use only one of them"}
	}
	return w.withTaskWidth(line), note, nil
}

// wantedBatchSystem returns the name of the batch system whose hosts the job must use, or "". named is true if options
// name hosts by their number in the allocation.
func (w Inputs) wantedBatchSystem(line option.Line, named bool) string {
	rmk := line.Job.RMK
	switch {
	case batch.Known(rmk):
		return rmk
	case rmk != "" && rmk != "auto":
		return "" // none, user
	case line.Job.RMFile != "":
		return "file"
	}
	if inside, _ := w.lookupEnv("MPIEXEC_JOBID"); !named && (inside != "" || line.NamesHosts() || w.hasNodeVariable()) {
		return ""
	}
	if s, _ := batch.Inside(w.allocInputs()); s != nil {
		return s.Name
	}
	return ""
}

// readAllocation reads and stores the allocation of a batch system.
func (w *Inputs) readAllocation(system string, options batch.Options) error {
	a, err := batch.Read(system, w.allocInputs(), options)
	if err == nil {
		w.Allocation = &a
	}
	return err
}

// allocationOption returns an option of the command line that needs an allocation, or "". It ignores
// --batch-option in variables or the configuration.
func allocationOption(line option.Line) string {
	switch j := line.Job; {
	case line.BatchOption(false).WholeJob:
		return "--batch-option scope=job"
	case j.RMFile != "":
		return "--rm-file"
	case slices.ContainsFunc(line.Apps, func(s option.AppContext) bool { return s.HetGroup != "" }):
		return "--het-group"
	}
	return ""
}

// allocationRequest returns the options for reading the allocation. The groups (--het-group) are the groups of app
// or, if app is nil, of all app contexts. If one of these names no groups, all groups of the job are read.
func allocationRequest(line option.Line, app *option.AppContext) (options batch.Options, err error) {
	options.Job = line.Job.BatchOption().WholeJob
	options.File, options.Form = batch.Form(line.Job.RMFile)
	apps := line.Apps
	if app != nil {
		apps = []option.AppContext{*app}
	}
	incomplete := false
	for _, s := range apps {
		groups, err := idset.Parse(s.HetGroup, maxGroup)
		if err != nil {
			return options, &usererr.Error{Text: fmt.Sprintf("--het-group %s is not a list of group numbers", s.HetGroup), Remedy: "write a list such as 0,2-3; the first group is 0"}
		}
		options.Groups = append(options.Groups, groups...)
		incomplete = incomplete || groups == nil
	}
	if len(options.Groups) > maxGroup {
		return options, &usererr.Error{Text: fmt.Sprintf("--het-group lists more than %d groups", maxGroup)}
	}
	if incomplete && len(options.Groups) > 0 {
		options.Groups = nil
	}
	return options, nil
}

// maxGroup is the largest group number that --het-group accepts. Slurm allows only 128 groups in a job.
const maxGroup = 1023

// namesRelativeHosts reports whether the line names a host by its index in the allocation.
func namesRelativeHosts(line option.Line) bool {
	return slices.ContainsFunc(line.Apps, func(s option.AppContext) bool {
		return slices.ContainsFunc(s.Host, func(expr option.HostExpr) bool { return slices.ContainsFunc(expr, hostlist.Entry.IsRelative) })
	})
}

// resolveRelative replaces names such as +n2, in each app context, by hosts of the allocation. App contexts that
// inherit a host list get the same hosts as the first one.
func resolveRelative(apps []option.AppContext, allocation []hostlist.Entry) error {
	var earlier []hostlist.Entry
	lists := make(map[int][]option.HostExpr) // by number of the app context that gives it
	for i := range apps {
		s := &apps[i]
		g, given := s.Origin("host")
		if list, known := lists[g.AppNumber]; known || !given {
			s.Host = list
			continue
		}
		hosts, err := hostlist.Resolve(slices.Concat(s.Host...), allocation, earlier...)
		if err != nil {
			return err
		}
		s.Host = []option.HostExpr{hosts}
		lists[g.AppNumber], earlier = s.Host, append(earlier, hosts...)
	}
	return nil
}

// hasNodeVariable reports whether an environment variable of ParaStation names nodes.
func (w Inputs) hasNodeVariable() bool {
	return slices.ContainsFunc([]string{"PSI_NODES", "PSI_HOSTS", "PSI_HOSTFILE", "PSI_PEFILE"}, func(name string) bool {
		_, defined := w.lookupEnv(name)
		return defined
	})
}

// withTaskWidth sets the number of CPUs of each rank to the number that the allocation grants to each task, unless the
// user has set it.
func (w Inputs) withTaskWidth(line option.Line) option.Line {
	if w.Allocation == nil || w.Allocation.Width == 1 || line.WidthFrom != "" {
		return line
	}
	if _, defined := w.lookupEnv("PSI_TPP"); defined {
		return line
	}
	for i := range line.Apps {
		if s := &line.Apps[i]; s.TPP == "" {
			s.TPP, line.WidthFrom = strconv.Itoa(w.Allocation.Width), w.Allocation.WidthFrom
		}
	}
	return line
}

// allocatedHosts returns the hosts of the allocation in order, or nil if there is no allocation. If the batch system
// gives no number of tasks, Slots is 0 in each host entry.
func (w Inputs) allocatedHosts() (hosts []hostlist.Entry) {
	if w.Allocation == nil {
		return nil
	}
	for _, h := range w.Allocation.Hosts {
		e := hostlist.Entry{Host: h.Name, Slots: max(1, h.CPUs), File: w.Allocation.Source, Line: h.Line}
		if w.Allocation.TasksUnknown {
			e.Slots = 0
		}
		if h.Line > 0 && w.Allocation.System != "file" {
			e.File, _ = w.lookupEnv(w.Allocation.Source)
		}
		hosts = append(hosts, e)
	}
	return hosts
}

// confineToGroups restricts an app context of a heterogeneous job to the hosts of the groups that it names. Without -n,
// the app context gets as many ranks as these groups have tasks.
func (w Inputs) confineToGroups(app *job.App, line option.Line, s option.AppContext) error {
	if s.HetGroup == "" || w.Allocation == nil {
		return nil
	}
	wish, err := allocationRequest(line, &s)
	if err != nil {
		return err
	}
	a, err := batch.Read(w.Allocation.System, w.allocInputs(), wish)
	if err != nil {
		return err
	}
	for _, h := range a.Hosts {
		app.Hosts = append(app.Hosts, h.Name)
	}
	if app.N == 0 && app.Soft == nil {
		app.N = a.Tasks()
	}
	return nil
}

// setTaskCounts stores in each candidate how many tasks the allocation grants on it.
func (w Inputs) setTaskCounts(req *job.Request, line option.Line) {
	if w.Allocation == nil || !batch.Known(line.Job.RMK) {
		return
	}
	granted := make(map[string]batch.Host)
	for _, h := range w.Allocation.Hosts {
		granted[h.Name] = h
	}
	for i := range req.Nodes {
		req.Nodes[i].Tasks = granted[req.Nodes[i].Name].Tasks
	}
	req.RM = rmOf(w.Allocation)
	req.RM.Starter, req.RM.Integration = launcherName(line.Job), job.LooseIntegration
	switch remote := slices.DeleteFunc(slices.Clone(req.Nodes), func(n job.NodeDef) bool { return n.Local }); {
	case len(remote) == 0:
		req.RM.Starter, req.RM.Integration = "fork", job.TightIntegration
	case req.RM.Starter == "ssh" && !slices.ContainsFunc(remote, func(n job.NodeDef) bool { return !granted[n.Name].HasLogin() }):
		req.RM.Integration = job.TightIntegration // helpers run below the batch system's own daemon there
	}
}

// setGrants stores in each candidate which of its CPUs and GPUs the allocation grants (rule RM-6).
func (w Inputs) setGrants(nodes []job.NodeDef) {
	if w.Allocation == nil {
		return
	}
	granted := make(map[string]batch.Host)
	for _, h := range w.Allocation.Hosts {
		if h.PartialList {
			h.List = ""
		}
		if h.List != "" || h.GPUs != "" {
			granted[h.Name] = h
		}
	}
	for i := range nodes {
		if h, listed := granted[nodes[i].Name]; listed {
			nodes[i].GrantedCPUs, nodes[i].GrantedGPUs = pin.CPUGrant{Numbering: h.Numbering, List: h.List, From: w.Allocation.Source}, h.GPUs
		}
	}
}

// rmOf returns the description of an allocation that plans, reports and -v show.
func rmOf(g *batch.Allocation) *job.RM {
	return &job.RM{Name: g.System, Job: g.Job, Step: g.Step, Hosts: len(g.Hosts), Tasks: g.Tasks(), CPUs: g.CPUs(), End: g.End}
}

// launcherName returns the name of the program or client with which hosts are reached if no batch system
// starts helpers.
func launcherName(j option.JobOptions) string {
	switch {
	case len(j.LauncherExec) > 0:
		return "exec"
	case j.Launcher == "auto":
		return "ssh"
	}
	return cmp.Or(j.Launcher, "ssh")
}

// allocationNotes returns the warnings about the cluster file and about the allocation.
func (w Inputs) allocationNotes() (notes []job.Note) {
	if w.Cluster != nil {
		for _, warning := range w.Cluster.Warnings {
			notes = append(notes, job.Note{Code: "cluster-file", Text: "warning: " + warning.Error()})
		}
	}
	if w.Allocation == nil {
		return notes
	}
	for _, warning := range w.Allocation.Warnings {
		notes = append(notes, job.Note{Code: "allocation", Text: warning})
	}
	return notes
}

// AllocationText returns the line about an allocation that -v prints (rule RM-5).
func AllocationText(rm job.RM, g *batch.Allocation) string {
	var t strings.Builder
	t.WriteString("rm: " + batch.JobName(rm.Name, rm.Job))
	fmt.Fprintf(&t, ", %s, %s, %s", text.Count(rm.Hosts, "host"), text.Count(rm.Tasks, "task"), text.Count(rm.CPUs, "CPU"))
	if !rm.End.IsZero() {
		t.WriteString(", ends " + rm.End.Local().Format("15:04:05"))
	}
	fmt.Fprintf(&t, ", starter %s (%s)", rm.Starter, rm.Integration)
	if g != nil && g.OtherSystem != "" {
		t.WriteString("; mpiexec also runs inside " + batch.Title(g.OtherSystem) + ", which has allocated other hosts")
	}
	return t.String()
}
