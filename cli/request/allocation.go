package request

import (
	"fmt"
	"slices"
	"strconv"

	"remshell/alloc"
	"remshell/cli/option"
	"remshell/fault"
	"remshell/hostlist"
)

// This file lets a job that runs inside of an allocation of a batch system use its hosts
// (HOST-10):
//
//	hosts of options, words, PSI_*  >  allocation  >  hosts of variables  >  this machine

// batch is where an allocation is looked for.
func (w World) batch() alloc.World {
	return alloc.World{Env: w.env, Open: w.Open}
}

// Allocated turns to an allocation if nobody has named hosts. note tells of it. A launch from
// inside of a rank stays on its host, as without an allocation: that is the outer job's.
func (w World) Allocated(line option.Line) (out option.Line, note string, err error) {
	if relative(line) {
		return w.relate(line)
	}
	if line.Job.RMK != "" && line.Job.RMK != "auto" {
		return w.wide(line), "", nil
	}
	line.Job.RMK = ""
	if inside, _ := w.env("MPIEXEC_JOBID"); inside != "" || line.NamesHosts() || w.listsNodes() {
		return line, "", nil
	}
	given, inside := alloc.Inside(w.batch())
	if !inside {
		return line, "", nil
	}
	if err := given.Once(); err != nil {
		return line, "", err
	}
	if err := given.Check(); err != nil {
		return line, "", err
	}
	line.Job.RMK = given.System
	line.Job.Nodes, line.Job.Simulate = "", 0
	line.Sections = slices.Clone(line.Sections)
	for i := range line.Sections { // variables come after the allocation
		line.Sections[i].Host, line.Sections[i].HostFile = nil, ""
	}
	return w.wide(line), fmt.Sprintf("the hosts are those of %s job %s (%s); -rmk none does not look at it", given.System, given.Job, given.Source()), nil
}

// relative reports whether any host is named by its place in the allocation.
func relative(line option.Line) bool {
	return slices.ContainsFunc(line.Sections, func(s option.Section) bool {
		return slices.ContainsFunc(s.Host, func(expr option.HostExpr) bool { return slices.ContainsFunc(expr, hostlist.Entry.Relative) })
	})
}

// relate puts the hosts of the allocation in the place of +n0 and its like. What follows is as
// if the user had named them.
func (w World) relate(line option.Line) (out option.Line, note string, err error) {
	system := line.Job.RMK
	if given, inside := alloc.Inside(w.batch()); (system == "" || system == "auto") && inside {
		if err := given.Check(); err != nil {
			return line, "", err
		}
		system = given.System
	}
	line.Job.RMK = system
	var hosts []hostlist.Entry
	if alloc.Known(system) {
		if hosts, err = w.granted(line, nil); err != nil {
			return line, "", err
		}
		line = w.wide(line)
	}
	line.Job.RMK = ""
	line.Sections = slices.Clone(line.Sections)
	return line, "", resolve(line.Sections, hosts)
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
	given, _ := alloc.Of(line.Job.RMK, w.batch())
	width, by := given.Width()
	if _, told := w.env("PSI_TPP"); width == 1 || told || line.WidthFrom != "" {
		return line
	}
	line.Sections = slices.Clone(line.Sections)
	for i := range line.Sections {
		if s := &line.Sections[i]; s.TPP == "" {
			s.TPP, line.WidthFrom = strconv.Itoa(width), by
		}
	}
	return line
}

// granted lists the hosts that a batch system gave us (-rmk), in its order; with none or user
// those that were named.
func (w World) granted(line option.Line, named []hostlist.Entry) ([]hostlist.Entry, error) {
	given, known := alloc.Of(line.Job.RMK, w.batch())
	switch {
	case !known:
		return named, nil
	case len(named) > 0:
		return nil, &fault.Error{Text: fmt.Sprintf("-rmk %s contradicts -host and -hostfile", given.System), Remedy: "keep one"}
	}
	return given.Hosts()
}
