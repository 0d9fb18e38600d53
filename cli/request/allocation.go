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

// This file lets a job that runs inside of an allocation of a batch system use its hosts
// (HOST-10):
//
//	hosts of options, words, PSI_*  >  allocation  >  hosts of variables  >  this machine

// allocInputs is where an allocation is looked for.
func (w Inputs) allocInputs() batch.World {
	return batch.World{Env: w.lookupEnv, Open: w.OpenFile, Run: w.RunTool}
}

// UseAllocation turns to an allocation if nobody has named hosts, and keeps what it grants for Make.
// note tells of it. A launch from inside of a rank stays on its host, as without an allocation:
// that is the outer job's (RM-2).
func (w *Inputs) UseAllocation(line option.Line) (out option.Line, note string, err error) {
	w.Allocation = nil
	wish, err := allocationRequest(line, nil)
	if err != nil {
		return line, "", err
	}
	named := namesRelativeHosts(line)
	system := w.wantedBatchSystem(line, named)
	if asked := allocationOption(line); system == "" && asked != "" {
		return line, "", &usererr.Error{Text: asked + " is for the hosts of a batch system, which are not asked here", Remedy: "leave it out"}
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

// withAllocatedHosts is a line that has the hosts of the allocation; auto: nobody has asked for them by name.
func (w Inputs) withAllocatedHosts(line option.Line, system string, auto bool) (out option.Line, note string, err error) {
	line.Job.RMK = system
	if auto {
		line.Job.Nodes, line.Job.Simulate = "", 0
		for i := range line.Apps { // variables come after the allocation
			line.Apps[i].Host, line.Apps[i].HostFile = nil, ""
		}
		whose := w.Allocation.System
		if w.Allocation.Job != "" {
			whose += " job " + w.Allocation.Job
		}
		note = fmt.Sprintf("the hosts are those of %s (%s); -rmk none does not look at it", whose, w.Allocation.Source)
	}
	if slices.ContainsFunc(line.Apps, func(s option.AppContext) bool { return s.Host != nil || s.HostFile != "" }) {
		return line, "", &usererr.Error{Text: fmt.Sprintf("-rmk %s contradicts -host and -hostfile", system), Remedy: "keep one"}
	}
	return w.withTaskWidth(line), note, nil
}

// wantedBatchSystem is the batch system whose hosts are wanted; empty: none is.
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

// readAllocation asks a batch system for what it has given us.
func (w *Inputs) readAllocation(system string, wish batch.Wish) error {
	a, err := batch.Read(system, w.allocInputs(), wish)
	if err == nil {
		w.Allocation = &a
	}
	return err
}

// allocationOption is the option that speaks of an allocation, if any does.
func allocationOption(line option.Line) string {
	switch j := line.Job; {
	case j.BatchOption().WholeJob:
		return "--batch-option scope=job"
	case j.RMFile != "":
		return "--rm-file"
	case slices.ContainsFunc(line.Apps, func(s option.AppContext) bool { return s.HetGroup != "" }):
		return "--het-group"
	}
	return ""
}

// allocationRequest is what a line says of an allocation: with a section, what that one does of its groups;
// with nil, all groups that its sections name, if each names some.
func allocationRequest(line option.Line, one *option.AppContext) (wish batch.Wish, err error) {
	wish.Job = line.Job.BatchOption().WholeJob
	wish.File, wish.Form = batch.Form(line.Job.RMFile)
	sections := line.Apps
	if one != nil {
		sections = []option.AppContext{*one}
	}
	silent := false
	for _, s := range sections {
		groups, err := idset.Parse(s.HetGroup, maxGroup)
		if err != nil {
			return wish, &usererr.Error{Text: fmt.Sprintf("--het-group %s is not a list of groups, which count from 0", s.HetGroup), Remedy: "write it like 0,2-3"}
		}
		wish.Groups = append(wish.Groups, groups...)
		silent = silent || groups == nil
	}
	if len(wish.Groups) > maxGroup {
		return wish, &usererr.Error{Text: fmt.Sprintf("--het-group: more than %d groups", maxGroup)}
	}
	if silent && len(wish.Groups) > 0 {
		wish.Groups = nil
	}
	return wish, nil
}

// maxGroup is more groups than Slurm lets a job have (128).
const maxGroup = 1023

// namesRelativeHosts reports whether any host is named by its place in the allocation.
func namesRelativeHosts(line option.Line) bool {
	return slices.ContainsFunc(line.Apps, func(s option.AppContext) bool {
		return slices.ContainsFunc(s.Host, func(expr option.HostExpr) bool { return slices.ContainsFunc(expr, hostlist.Entry.IsRelative) })
	})
}

// resolveRelative finds the hosts of each section. One that inherits its list has the same.
func resolveRelative(sections []option.AppContext, allocation []hostlist.Entry) error {
	var earlier []hostlist.Entry
	lists := make(map[int][]option.HostExpr) // by the section that gives it
	for i := range sections {
		s := &sections[i]
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

// hasNodeVariable reports whether a variable of ParaStation names nodes.
func (w Inputs) hasNodeVariable() bool {
	return slices.ContainsFunc([]string{"PSI_NODES", "PSI_HOSTS", "PSI_HOSTFILE", "PSI_PEFILE"}, func(name string) bool {
		_, defined := w.lookupEnv(name)
		return defined
	})
}

// withTaskWidth gives each rank the CPUs of a task of the allocation, if nothing was said of them.
func (w Inputs) withTaskWidth(line option.Line) option.Line {
	if w.Allocation == nil || w.Allocation.Width == 1 || line.WidthFrom != "" {
		return line
	}
	if _, told := w.lookupEnv("PSI_TPP"); told {
		return line
	}
	for i := range line.Apps {
		if s := &line.Apps[i]; s.TPP == "" {
			s.TPP, line.WidthFrom = strconv.Itoa(w.Allocation.Width), w.Allocation.WidthFrom
		}
	}
	return line
}

// allocatedHosts lists the hosts that a batch system gave us, in its order; nil: none did. A host of an
// allocation that is not counted has as many slots as CPUs.
func (w Inputs) allocatedHosts() (hosts []hostlist.Entry) {
	if w.Allocation == nil {
		return nil
	}
	for _, h := range w.Allocation.Hosts {
		e := hostlist.Entry{Host: h.Name, Slots: max(1, h.CPUs), File: w.Allocation.Source, Line: h.Line}
		if w.Allocation.Uncounted {
			e.Slots = 0
		}
		if h.Line > 0 && w.Allocation.System != "file" {
			e.File, _ = w.lookupEnv(w.Allocation.Source)
		}
		hosts = append(hosts, e)
	}
	return hosts
}

// confineToGroups confines a section to its groups of a heterogeneous job, whose tasks it has if nobody
// says how many.
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

// setTaskCounts tells the candidates of an allocation how many tasks each was granted.
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
	switch far := slices.DeleteFunc(slices.Clone(req.Nodes), func(n job.NodeDef) bool { return n.Local }); {
	case len(far) == 0:
		req.RM.Starter, req.RM.Integration = "fork", job.TightIntegration
	case req.RM.Starter == "ssh" && !slices.ContainsFunc(far, func(n job.NodeDef) bool { return !granted[n.Name].LetsIn() }):
		req.RM.Integration = job.TightIntegration // servers of the job, below what watches it there
	}
}

// setGrants tells the candidates of an allocation which CPUs and GPUs each was granted (RM-6).
func (w Inputs) setGrants(nodes []job.NodeDef) {
	if w.Allocation == nil {
		return
	}
	granted := make(map[string]batch.Host)
	for _, h := range w.Allocation.Hosts {
		if h.Bare {
			h.List = ""
		}
		if h.List != "" || h.GPUs != "" {
			granted[h.Name] = h
		}
	}
	for i := range nodes {
		if h, listed := granted[nodes[i].Name]; listed {
			nodes[i].GrantedCPUs, nodes[i].GrantedGPUs = pin.CPUGrant{Numbering: h.By, List: h.List, From: w.Allocation.Source}, h.GPUs
		}
	}
}

// rmOf is what plan, report and -v say of an allocation.
func rmOf(g *batch.Allocation) *job.RM {
	return &job.RM{Name: g.System, Job: g.Job, Step: g.Step, Hosts: len(g.Hosts), Tasks: g.Tasks(), CPUs: g.CPUs(), End: g.End}
}

// launcherName is what reaches hosts where no batch system's starter does.
func launcherName(j option.JobOptions) string {
	switch {
	case len(j.LauncherExec) > 0:
		return "exec"
	case j.Launcher == "auto":
		return "ssh"
	}
	return cmp.Or(j.Launcher, "ssh")
}

// allocationNotes are what does not fit together in an allocation, and what the cluster file says without effect.
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

// AllocationText is the line of -v about an allocation (RM-5).
func AllocationText(rm job.RM, g *batch.Allocation) string {
	var t strings.Builder
	t.WriteString("rm: " + rm.Name)
	if rm.Job != "" {
		t.WriteString(" job " + rm.Job)
	}
	fmt.Fprintf(&t, ", %s, %s, %s", text.Count(rm.Hosts, "host"), text.Count(rm.Tasks, "task"), text.Count(rm.CPUs, "CPU"))
	if !rm.End.IsZero() {
		t.WriteString(", ends " + rm.End.Local().Format("15:04:05"))
	}
	fmt.Fprintf(&t, ", starter %s (%s)", rm.Starter, rm.Integration)
	if g != nil && g.Beside != "" {
		t.WriteString("; inside of " + g.Beside + ", too, which names other hosts")
	}
	return t.String()
}
