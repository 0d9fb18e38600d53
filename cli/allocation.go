package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"remshell/hostlist"
)

// This file lets a job that runs inside of an allocation of a batch system use its hosts
// (HOST-10; rm-integration.md 1 and 2):
//
//	hosts of options, words, PSI_*  >  allocation  >  hosts of variables  >  this machine
//
// The batch system's variables and files are read, never its programs run.

// A batch is a batch system, known by its variables: the first one that is defined of each
// list counts.
type batch struct {
	name string
	job  []string // its number of the job
	list []string // the hosts, or a file with them
}

// batches are those whose lists we read, in the order in which one may run inside of another.
var batches = []batch{
	{"slurm", []string{"SLURM_JOB_ID", "SLURM_JOBID"}, []string{"SLURM_JOB_NODELIST", "SLURM_NODELIST"}},
	{"lsf", []string{"LSB_JOBID"}, []string{"LSB_MCPU_HOSTS"}},
	{"sge", []string{"JOB_ID"}, []string{"PE_HOSTFILE"}},
	{"pbs", []string{"PBS_JOBID"}, []string{"PBS_NODEFILE"}},
}

// said is the first of some variables that is not empty.
func (sc scene) said(names []string) (name, value string) {
	for _, name = range names {
		if value, _ = lookup(sc.environ, name); value != "" {
			return name, value
		}
	}
	return names[0], ""
}

// allocated turns to an allocation if nobody has named hosts. note tells of it. A launch from
// inside of a rank stays on its host, as without an allocation: that is the outer job's.
func (sc scene) allocated(line Line) (out Line, note string, err error) {
	if relative(line) {
		return sc.relate(line)
	}
	if line.Job.RMK != "" && line.Job.RMK != "auto" {
		return sc.wide(line), "", nil
	}
	line.Job.RMK = ""
	if _, inside := sc.said([]string{"MPIEXEC_JOBID"}); inside != "" || namesHosts(line) || sc.listsNodes() {
		return line, "", nil
	}
	for _, b := range batches {
		_, id := sc.said(b.job)
		variable, list := sc.said(b.list)
		if id == "" || list == "" {
			continue
		}
		if copies, _ := lookup(sc.environ, "SLURM_STEP_NUM_TASKS"); b.name == "slurm" && sc.copied(copies) {
			return line, "", &UsageError{fmt.Sprintf("started %s times by the batch system (srun -n %s?), and each would start the whole job", copies, copies),
				"start it once, or let each use its own host with -rmk none"}
		}
		line.Job.RMK = b.name
		line.Job.Nodes, line.Job.Simulate = "", 0
		line.Sections = slices.Clone(line.Sections)
		for i := range line.Sections { // variables come after the allocation
			line.Sections[i].Host, line.Sections[i].HostFile = nil, ""
		}
		return sc.wide(line), fmt.Sprintf("the hosts are those of %s job %s (%s); -rmk none does not look at it", b.name, id, variable), nil
	}
	return line, "", nil
}

// relative reports whether any host is named by its place in the allocation.
func relative(line Line) bool {
	return slices.ContainsFunc(line.Sections, func(s Section) bool {
		return slices.ContainsFunc(s.Host, func(expr HostExpr) bool { return slices.ContainsFunc(expr, hostlist.Entry.Relative) })
	})
}

// relate puts the hosts of the allocation in the place of +n0 and its like. What follows is as
// if the user had named them.
func (sc scene) relate(line Line) (out Line, note string, err error) {
	system := line.Job.RMK
	for _, b := range batches {
		_, id := sc.said(b.job)
		if _, list := sc.said(b.list); (system == "" || system == "auto") && id != "" && list != "" {
			system = b.name
		}
	}
	line.Job.RMK = system
	var hosts []hostlist.Entry
	if slices.ContainsFunc(batches, func(b batch) bool { return b.name == system }) {
		if hosts, err = sc.granted(line, nil); err != nil {
			return line, "", err
		}
		line = sc.wide(line)
	}
	line.Job.RMK = ""
	line.Sections = slices.Clone(line.Sections)
	return line, "", resolve(line.Sections, hosts)
}

// resolve finds the hosts of each section. One that inherits its list has the same.
func resolve(sections []Section, allocation []hostlist.Entry) error {
	var earlier []hostlist.Entry
	lists := make(map[int][]HostExpr) // by the section that gives it
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
		s.Host = []HostExpr{hosts}
		lists[g.Section], earlier = s.Host, append(earlier, hosts...)
	}
	return nil
}

// listsNodes reports whether a variable of ParaStation names nodes.
func (sc scene) listsNodes() bool {
	return slices.ContainsFunc([]string{"PSI_NODES", "PSI_HOSTS", "PSI_HOSTFILE", "PSI_PEFILE"}, func(name string) bool {
		_, defined := lookup(sc.environ, name)
		return defined
	})
}

// copied reports whether Slurm has started us as one of several tasks. A rank of ours is
// none: it does not have SLURM_PROCID.
func (sc scene) copied(tasks string) bool {
	_, task := lookup(sc.environ, "SLURM_PROCID")
	n, err := strconv.Atoi(tasks)
	return task && err == nil && n > 1
}

// wide gives each rank the CPUs of a task of the allocation, if nothing was said of them.
func (sc scene) wide(line Line) Line {
	width, by := sc.perTask(line.Job.RMK)
	if _, told := lookup(sc.environ, "PSI_TPP"); width == 1 || told || line.widthFrom != "" {
		return line
	}
	line.Sections = slices.Clone(line.Sections)
	for i := range line.Sections {
		if s := &line.Sections[i]; s.TPP == "" {
			s.TPP, line.widthFrom = strconv.Itoa(width), by
		}
	}
	return line
}

// perTask is how many CPUs a task of the allocation has, and which variable says so.
func (sc scene) perTask(system string) (width int, by string) {
	if system == "slurm" {
		by = "SLURM_CPUS_PER_TASK"
		value, _ := lookup(sc.environ, by)
		width, _ = strconv.Atoi(value)
	}
	return max(1, width), by
}

// granted lists the hosts that a batch system gave us (-rmk), in its order.
func (sc scene) granted(line Line, named []hostlist.Entry) ([]hostlist.Entry, error) {
	system := line.Job.RMK
	i := slices.IndexFunc(batches, func(b batch) bool { return b.name == system })
	if i < 0 { // none or user
		return named, nil
	}
	if len(named) > 0 {
		return nil, &UsageError{fmt.Sprintf("-rmk %s contradicts -host and -hostfile", system), "keep one"}
	}
	variable, value := sc.said(batches[i].list)
	if value == "" {
		return nil, &UsageError{fmt.Sprintf("-rmk %s: %s is not set", system, variable), "run inside an allocation, or name hosts with -host"}
	}
	var entries []hostlist.Entry
	var err error
	switch system {
	case "slurm":
		entries, err = sc.slurm(variable, value)
	case "lsf":
		entries, err = hostlist.Pairs(variable, value)
	default:
		if entries, err = hostlist.ReadFile(value, sc.open, nil); err != nil {
			err = fmt.Errorf("%s: %w", variable, err)
		}
	}
	if err != nil {
		return nil, err
	}
	for i := range entries { // a line of PBS is a slot, also a host's only one
		entries[i].Slots = max(1, entries[i].Slots)
	}
	return hostlist.Join(entries)
}

// slurm gives each node its CPUs: as many as its tasks have, if the user has asked for
// tasks, else all that Slurm gave (rm-integration.md 2.2).
func (sc scene) slurm(variable, nodes string) ([]hostlist.Entry, error) {
	entries, err := hostlist.Parse(variable, nodes)
	if err != nil {
		return nil, err
	}
	width, _ := sc.perTask("slurm")
	counted, counts := sc.said([]string{"SLURM_TASKS_PER_NODE"})
	asked := []string{"SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", "SLURM_NTASKS_PER_SOCKET", "SLURM_NTASKS_PER_CORE", "SLURM_NTASKS_PER_GPU"}
	if _, tasks := sc.said(asked); tasks == "" {
		if name, cpus := sc.said([]string{"SLURM_JOB_CPUS_PER_NODE"}); cpus != "" {
			counted, counts, width = name, cpus, 1
		}
	}
	slots, err := hostlist.TaskCounts(cmp.Or(counts, "1"))
	if err == nil && len(slots) == 1 {
		slots = slices.Repeat(slots, len(entries))
	}
	if err == nil && len(slots) != len(entries) {
		err = fmt.Errorf("it counts %d nodes, and %s names %d", len(slots), variable, len(entries))
	}
	if err != nil {
		return nil, &UsageError{fmt.Sprintf("%s: %v", counted, err), ""}
	}
	for i := range entries {
		entries[i].Slots = slots[i] * width
	}
	return entries, nil
}
