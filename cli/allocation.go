package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"remshell/hostlist"
)

// This file lets a job that runs inside of an allocation of a batch system use its hosts
// (HOST-10; rm-integration.md 1 and 2):
//
//	hosts of options, words, PSI_*  >  allocation  >  hosts of variables  >  this machine
//
// The batch system's variables and files are read, never its programs run.

// A batch is a batch system, known by its variables: the first one that is not empty of each
// list counts.
type batch struct {
	name   string
	job    []string // its number of the job
	with   []string // one of these is set as well; nil: no matter
	list   []string // the hosts, or a file with them; nil: we do not know how to find them
	unread []string // tell of hosts in ways that we do not know
}

// batches are those we know, in the order in which one may run inside of another (RM-1). A
// JOB_ID need not be Grid Engine's, and where that gives no PE_HOSTFILE, this machine is all
// that the job has.
var batches = []batch{
	{"flux", []string{"FLUX_JOB_ID", "FLUX_ENCLOSING_ID"}, []string{"FLUX_JOB_ID", "FLUX_URI"}, nil, []string{"FLUX_URI"}},
	{"slurm", []string{"SLURM_JOB_ID", "SLURM_JOBID", "SLURM_HET_JOB_ID"}, nil, []string{"SLURM_JOB_NODELIST", "SLURM_NODELIST"}, hetSizes},
	{"lsf", []string{"LSB_JOBID"}, nil, []string{"LSB_MCPU_HOSTS"}, []string{"LSB_AFFINITY_HOSTFILE", "LSB_DJOB_HOSTFILE", "LSB_HOSTS"}},
	{"sge", []string{"JOB_ID"}, []string{"PE_HOSTFILE"}, []string{"PE_HOSTFILE"}, nil},
	{"cobalt", []string{"COBALT_JOBID"}, nil, nil, []string{"COBALT_NODEFILE", "COBALT_PARTNAME"}},
	{"pbs", []string{"PBS_JOBID"}, nil, []string{"PBS_NODEFILE"}, nil},
	{"ll", []string{"LOADL_STEP_ID"}, nil, nil, []string{"LOADL_HOSTFILE", "LOADL_PROCESSOR_LIST"}},
}

// hetSizes count the groups of a heterogeneous job of Slurm. What its other variables say
// is then one group's.
var hetSizes = []string{"SLURM_HET_SIZE", "SLURM_PACK_SIZE"}

// inside is the batch system in whose job we are, and the number of that; empty: none.
func (sc scene) inside() (b batch, id string) {
	for _, b := range batches {
		_, id := sc.said(b.job)
		_, with := sc.said(b.with)
		if id != "" && (b.with == nil || with != "") {
			return b, id
		}
	}
	return batch{}, ""
}

// unreadable says why the hosts of a job cannot be read (RM-3, M2), and what tells of them;
// nil: they can.
func (sc scene) unreadable(b batch, id string) error {
	var why string
	_, list := sc.said(b.list)
	switch groups, _ := strconv.Atoi(sc.value(hetSizes)); {
	case b.name == "slurm" && groups > 1:
		why = "the groups of a heterogeneous job are not read yet"
	case b.list == nil:
		why = "lists of " + b.name + " are not read yet"
	case list == "":
		why = b.list[0] + " is not set"
	default:
		return nil
	}
	var seen []string
	for _, name := range slices.Concat(b.job, b.list, b.unread) {
		if sc.value([]string{name}) != "" {
			seen = append(seen, name)
		}
	}
	return &UsageError{fmt.Sprintf("inside %s job %s, but its hosts cannot be read: %s (seen: %s)", b.name, id, why, strings.Join(seen, ", ")),
		"name hosts with -host, or run here with -rmk none"}
}

// value is that of the first of some variables that is not empty.
func (sc scene) value(names []string) string {
	_, value := sc.said(names)
	return value
}

// said is the first of some variables that is not empty; if all are, the first.
func (sc scene) said(names []string) (name, value string) {
	for _, name := range names {
		if value, _ := lookup(sc.environ, name); value != "" {
			return name, value
		}
	}
	if len(names) > 0 {
		name = names[0]
	}
	return name, ""
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
	b, id := sc.inside()
	if id == "" {
		return line, "", nil
	}
	if copies := sc.value([]string{"SLURM_STEP_NUM_TASKS"}); b.name == "slurm" && sc.copied(copies) {
		return line, "", &UsageError{fmt.Sprintf("started %s times by the batch system (srun -n %s?), and each would start the whole job", copies, copies),
			"start it once, or let each use its own host with -rmk none"}
	}
	if err := sc.unreadable(b, id); err != nil {
		return line, "", err
	}
	variable, _ := sc.said(b.list)
	line.Job.RMK = b.name
	line.Job.Nodes, line.Job.Simulate = "", 0
	line.Sections = slices.Clone(line.Sections)
	for i := range line.Sections { // variables come after the allocation
		line.Sections[i].Host, line.Sections[i].HostFile = nil, ""
	}
	return sc.wide(line), fmt.Sprintf("the hosts are those of %s job %s (%s); -rmk none does not look at it", b.name, id, variable), nil
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
	if b, id := sc.inside(); (system == "" || system == "auto") && id != "" {
		if err := sc.unreadable(b, id); err != nil {
			return line, "", err
		}
		system = b.name
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
	_, id := sc.said(batches[i].job)
	if err := sc.unreadable(batches[i], id); err != nil {
		return nil, err
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
