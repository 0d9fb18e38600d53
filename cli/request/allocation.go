package request

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"remshell/batch"
	"remshell/cli/option"
	"remshell/fault"
	"remshell/hostlist"
	"remshell/idset"
	"remshell/job"
	"remshell/pin"
	"remshell/text"
)

// This file lets a job that runs inside of an allocation of a batch system use its hosts
// (HOST-10):
//
//	hosts of options, words, PSI_*  >  allocation  >  hosts of variables  >  this machine

// batch is where an allocation is looked for.
func (w World) batch() batch.World {
	return batch.World{Env: w.env, Open: w.Open, Run: w.Run}
}

// Allocated turns to an allocation if nobody has named hosts, and keeps what it grants for Make.
// note tells of it. A launch from inside of a rank stays on its host, as without an allocation:
// that is the outer job's (RM-2).
func (w *World) Allocated(line option.Line) (out option.Line, note string, err error) {
	w.Grant = nil
	wish, err := wishOf(line, nil)
	if err != nil {
		return line, "", err
	}
	named := relative(line)
	system := w.system(line, named)
	if asked := asksFor(line); system == "" && asked != "" {
		return line, "", &fault.Error{Text: asked + " is for the hosts of a batch system, which are not asked here", Remedy: "leave it out"}
	}
	if system != "" {
		if err := w.grant(system, wish); err != nil {
			return line, "", err
		}
	}
	auto := line.Job.RMK == "" || line.Job.RMK == "auto"
	line.Sections = slices.Clone(line.Sections)
	switch {
	case named:
		line = w.wide(line)
		line.Job.RMK = ""
		return line, "", resolve(line.Sections, w.granted())
	case w.Grant != nil:
		return w.turned(line, system, auto)
	case auto:
		line.Job.RMK = ""
	}
	return line, "", nil
}

// turned is a line that has the hosts of the allocation; auto: nobody has asked for them by name.
func (w World) turned(line option.Line, system string, auto bool) (out option.Line, note string, err error) {
	line.Job.RMK = system
	if auto {
		line.Job.Nodes, line.Job.Simulate = "", 0
		for i := range line.Sections { // variables come after the allocation
			line.Sections[i].Host, line.Sections[i].HostFile = nil, ""
		}
		whose := w.Grant.System
		if w.Grant.Job != "" {
			whose += " job " + w.Grant.Job
		}
		note = fmt.Sprintf("the hosts are those of %s (%s); -rmk none does not look at it", whose, w.Grant.Source)
	}
	if slices.ContainsFunc(line.Sections, func(s option.Section) bool { return s.Host != nil || s.HostFile != "" }) {
		return line, "", &fault.Error{Text: fmt.Sprintf("-rmk %s contradicts -host and -hostfile", system), Remedy: "keep one"}
	}
	return w.wide(line), note, nil
}

// system is the batch system whose hosts are wanted; empty: none is.
func (w World) system(line option.Line, named bool) string {
	rmk := line.Job.RMK
	switch {
	case batch.Known(rmk):
		return rmk
	case rmk != "" && rmk != "auto":
		return "" // none, user
	case line.Job.RMFile != "":
		return "file"
	}
	if inside, _ := w.env("MPIEXEC_JOBID"); !named && (inside != "" || line.NamesHosts() || w.listsNodes()) {
		return ""
	}
	if s, _ := batch.Inside(w.batch()); s != nil {
		return s.Name
	}
	return ""
}

// grant asks a batch system for what it has given us.
func (w *World) grant(system string, wish batch.Wish) error {
	a, err := batch.Read(system, w.batch(), wish)
	if err == nil {
		w.Grant = &a
	}
	return err
}

// asksFor is the option that speaks of an allocation, if any does.
func asksFor(line option.Line) string {
	switch j := line.Job; {
	case j.BatchOption().WholeJob:
		return "--batch-option scope=job"
	case j.RMFile != "":
		return "--rm-file"
	case slices.ContainsFunc(line.Sections, func(s option.Section) bool { return s.HetGroup != "" }):
		return "--het-group"
	}
	return ""
}

// wishOf is what a line says of an allocation: with a section, what that one does of its groups;
// with nil, all groups that its sections name, if each names some.
func wishOf(line option.Line, one *option.Section) (wish batch.Wish, err error) {
	wish.Job = line.Job.BatchOption().WholeJob
	wish.File, wish.Form = batch.Form(line.Job.RMFile)
	sections := line.Sections
	if one != nil {
		sections = []option.Section{*one}
	}
	silent := false
	for _, s := range sections {
		groups, err := idset.Parse(s.HetGroup, maxGroup)
		if err != nil {
			return wish, &fault.Error{Text: fmt.Sprintf("--het-group %s is not a list of groups, which count from 0", s.HetGroup), Remedy: "write it like 0,2-3"}
		}
		wish.Groups = append(wish.Groups, groups...)
		silent = silent || groups == nil
	}
	if len(wish.Groups) > maxGroup {
		return wish, &fault.Error{Text: fmt.Sprintf("--het-group: more than %d groups", maxGroup)}
	}
	if silent && len(wish.Groups) > 0 {
		wish.Groups = nil
	}
	return wish, nil
}

// maxGroup is more groups than Slurm lets a job have (128).
const maxGroup = 1023

// relative reports whether any host is named by its place in the allocation.
func relative(line option.Line) bool {
	return slices.ContainsFunc(line.Sections, func(s option.Section) bool {
		return slices.ContainsFunc(s.Host, func(expr option.HostExpr) bool { return slices.ContainsFunc(expr, hostlist.Entry.Relative) })
	})
}

// resolve finds the hosts of each section. One that inherits its list has the same.
func resolve(sections []option.Section, allocation []hostlist.Entry) error {
	var earlier []hostlist.Entry
	lists := make(map[int][]option.HostExpr) // by the section that gives it
	for i := range sections {
		s := &sections[i]
		g, given := s.Origin("host")
		if list, known := lists[g.Section]; known || !given {
			s.Host = list
			continue
		}
		hosts, err := hostlist.Resolve(slices.Concat(s.Host...), allocation, earlier...)
		if err != nil {
			return err
		}
		s.Host = []option.HostExpr{hosts}
		lists[g.Section], earlier = s.Host, append(earlier, hosts...)
	}
	return nil
}

// listsNodes reports whether a variable of ParaStation names nodes.
func (w World) listsNodes() bool {
	return slices.ContainsFunc([]string{"PSI_NODES", "PSI_HOSTS", "PSI_HOSTFILE", "PSI_PEFILE"}, func(name string) bool {
		_, defined := w.env(name)
		return defined
	})
}

// wide gives each rank the CPUs of a task of the allocation, if nothing was said of them.
func (w World) wide(line option.Line) option.Line {
	if w.Grant == nil || w.Grant.Width == 1 || line.WidthFrom != "" {
		return line
	}
	if _, told := w.env("PSI_TPP"); told {
		return line
	}
	for i := range line.Sections {
		if s := &line.Sections[i]; s.TPP == "" {
			s.TPP, line.WidthFrom = strconv.Itoa(w.Grant.Width), w.Grant.WidthFrom
		}
	}
	return line
}

// granted lists the hosts that a batch system gave us, in its order; nil: none did. A host of an
// allocation that is not counted has as many slots as CPUs.
func (w World) granted() (hosts []hostlist.Entry) {
	if w.Grant == nil {
		return nil
	}
	for _, h := range w.Grant.Hosts {
		e := hostlist.Entry{Host: h.Name, Slots: max(1, h.CPUs), File: w.Grant.Source, Line: h.Line}
		if w.Grant.Uncounted {
			e.Slots = 0
		}
		if h.Line > 0 && w.Grant.System != "file" {
			e.File, _ = w.env(w.Grant.Source)
		}
		hosts = append(hosts, e)
	}
	return hosts
}

// grouped confines a section to its groups of a heterogeneous job, whose tasks it has if nobody
// says how many.
func (w World) grouped(app *job.App, line option.Line, s option.Section) error {
	if s.HetGroup == "" || w.Grant == nil {
		return nil
	}
	wish, err := wishOf(line, &s)
	if err != nil {
		return err
	}
	a, err := batch.Read(w.Grant.System, w.batch(), wish)
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

// meant tells the candidates of an allocation how many tasks each was granted.
func (w World) meant(req *job.Request, line option.Line) {
	if w.Grant == nil || !batch.Known(line.Job.RMK) {
		return
	}
	granted := make(map[string]batch.Host)
	for _, h := range w.Grant.Hosts {
		granted[h.Name] = h
	}
	for i := range req.Nodes {
		req.Nodes[i].Tasks = granted[req.Nodes[i].Name].Tasks
	}
	req.RM = told(w.Grant)
	req.RM.Starter, req.RM.Grade = starterOf(line.Job), job.Loose
	switch far := slices.DeleteFunc(slices.Clone(req.Nodes), func(n job.NodeDef) bool { return n.Local }); {
	case len(far) == 0:
		req.RM.Starter, req.RM.Grade = "fork", job.Tight
	case req.RM.Starter == "ssh" && !slices.ContainsFunc(far, func(n job.NodeDef) bool { return !granted[n.Name].LetsIn() }):
		req.RM.Grade = job.Tight // servers of the job, below what watches it there
	}
}

// fence tells the candidates of an allocation which CPUs and GPUs each was granted (RM-6).
func (w World) fence(nodes []job.NodeDef) {
	if w.Grant == nil {
		return
	}
	granted := make(map[string]batch.Host)
	for _, h := range w.Grant.Hosts {
		if h.Bare {
			h.List = ""
		}
		if h.List != "" || h.GPUs != "" {
			granted[h.Name] = h
		}
	}
	for i := range nodes {
		if h, listed := granted[nodes[i].Name]; listed {
			nodes[i].Grant, nodes[i].GrantGPU = pin.Grant{By: h.By, List: h.List, From: w.Grant.Source}, h.GPUs
		}
	}
}

// told is what plan, report and -v say of an allocation.
func told(g *batch.Allocation) *job.RM {
	return &job.RM{Name: g.System, Job: g.Job, Step: g.Step, Hosts: len(g.Hosts), Tasks: g.Tasks(), CPUs: g.CPUs(), End: g.End}
}

// starterOf is what reaches hosts where no batch system's starter does.
func starterOf(j option.Job) string {
	switch {
	case len(j.LauncherExec) > 0:
		return "exec"
	case j.Launcher == "auto":
		return "ssh"
	}
	return cmp.Or(j.Launcher, "ssh")
}

// doubts are what does not fit together in an allocation, and what the cluster file says without effect.
func (w World) doubts() (notes []job.Note) {
	if w.Cluster != nil {
		for _, warning := range w.Cluster.Warnings {
			notes = append(notes, job.Note{Code: "cluster-file", Text: "warning: " + warning.Error()})
		}
	}
	if w.Grant == nil {
		return notes
	}
	for _, warning := range w.Grant.Warnings {
		notes = append(notes, job.Note{Code: "allocation", Text: warning})
	}
	return notes
}

// Told is the line of -v about an allocation (RM-5).
func Told(rm job.RM, g *batch.Allocation) string {
	var t strings.Builder
	t.WriteString("rm: " + rm.Name)
	if rm.Job != "" {
		t.WriteString(" job " + rm.Job)
	}
	fmt.Fprintf(&t, ", %s, %s, %s", text.Count(rm.Hosts, "host"), text.Count(rm.Tasks, "task"), text.Count(rm.CPUs, "CPU"))
	if !rm.End.IsZero() {
		t.WriteString(", ends " + rm.End.Local().Format("15:04:05"))
	}
	fmt.Fprintf(&t, ", starter %s (%s)", rm.Starter, rm.Grade)
	if g != nil && g.Beside != "" {
		t.WriteString("; inside of " + g.Beside + ", too, which names other hosts")
	}
	return t.String()
}
