/*
Package alloc knows what a batch system has given to the job in which mpiexec was started
(HOST-10; rm-integration.md 1 and 2). It reads the batch system's variables, and the files
that they name; it never runs its programs.

	variables --Inside, Of--> Allocation --Hosts, Width--> hosts with slots, CPUs of a task
	                              |
	                              '-- Check, Once: why it must not be used

Each manager has a file of its own, with one row of the table below.
*/
package alloc

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"remshell/fault"
	"remshell/hostlist"
)

// A World is where an allocation is looked for.
type World struct {
	Env  func(name string) (value string, defined bool)
	Open func(name string) (io.ReadCloser, error) // for the files that variables name
}

// An Allocation is what a batch system has given to a job.
type Allocation struct {
	System string // slurm, pbs, ...
	Job    string // its number there; empty: there is no job of that system
	*manager
	world World
}

// A manager is a batch system, known by its variables: the first one that is not empty of
// each list counts.
type manager struct {
	name   string
	job    []string // its number of the job
	with   []string // one of these is set as well; nil: no matter
	list   []string // the hosts, or a file with them; nil: we do not know how to find them
	unread []string // tell of hosts in ways that we do not know

	// What the variable of list says, as hosts; nil: it is the name of a file with a host on
	// each line.
	read func(w World, variable, value string) ([]hostlist.Entry, error)
	// Why the hosts cannot be read although they are listed; nil: they always can.
	strange func(w World) (why string)
	// How many CPUs a task has, and which variable says so; nil: one.
	width func(w World) (cpus int, variable string)
	// How many of us the batch system has started as its tasks; nil: it starts one.
	copies func(w World) (n string, several bool)
}

// managers are those we know, in the order in which one may run inside of another (RM-1).
var managers = []*manager{&flux, &slurm, &lsf, &sge, &cobalt, &pbs, &loadLeveler}

// Inside finds the batch system in whose job we are; false: none.
func Inside(w World) (Allocation, bool) {
	for _, m := range managers {
		a := Allocation{System: m.name, Job: w.value(m.job), manager: m, world: w}
		if a.Job != "" && (m.with == nil || w.value(m.with) != "") {
			return a, true
		}
	}
	return Allocation{}, false
}

// Of is what the batch system of that name has given us; false: there is none of that name.
func Of(system string, w World) (Allocation, bool) {
	for _, m := range managers {
		if m.name == system {
			return Allocation{System: system, Job: w.value(m.job), manager: m, world: w}, true
		}
	}
	return Allocation{}, false
}

// Known reports whether a batch system is called so.
func Known(system string) bool {
	return slices.ContainsFunc(managers, func(m *manager) bool { return m.name == system })
}

// Source is the variable that tells of the hosts.
func (a Allocation) Source() string {
	variable, _ := a.world.said(a.list)
	return variable
}

// Check says why the hosts cannot be read (RM-3, M2), and what tells of them; nil: they can.
func (a Allocation) Check() error {
	var why string
	if a.strange != nil {
		why = a.strange(a.world)
	}
	switch {
	case why != "":
	case a.list == nil:
		why = "lists of " + a.name + " are not read yet"
	case a.world.value(a.list) == "":
		why = a.list[0] + " is not set"
	default:
		return nil
	}
	var seen []string
	for _, name := range slices.Concat(a.job, a.list, a.unread) {
		if a.world.value([]string{name}) != "" {
			seen = append(seen, name)
		}
	}
	return &fault.Error{
		Text:   fmt.Sprintf("inside %s job %s, but its hosts cannot be read: %s (seen: %s)", a.name, a.Job, why, strings.Join(seen, ", ")),
		Remedy: "name hosts with -host, or run here with -rmk none",
	}
}

// Once refuses that the batch system has started several of us, each of which would start
// the whole job.
func (a Allocation) Once() error {
	if a.copies == nil {
		return nil
	}
	n, several := a.copies(a.world)
	if !several {
		return nil
	}
	return &fault.Error{
		Text:   fmt.Sprintf("started %s times by the batch system (srun -n %s?), and each would start the whole job", n, n),
		Remedy: "start it once, or let each use its own host with -rmk none",
	}
}

// Hosts are those of the allocation with their slots, in its order, each once.
func (a Allocation) Hosts() ([]hostlist.Entry, error) {
	variable, value := a.world.said(a.list)
	if value == "" {
		return nil, &fault.Error{
			Text:   fmt.Sprintf("-rmk %s: %s is not set", a.System, variable),
			Remedy: "run inside an allocation, or name hosts with -host",
		}
	}
	if err := a.Check(); err != nil {
		return nil, err
	}
	read := a.read
	if read == nil {
		read = lines
	}
	entries, err := read(a.world, variable, value)
	if err != nil {
		return nil, err
	}
	for i := range entries { // a line of a file is a slot, also a host's only one
		entries[i].Slots = max(1, entries[i].Slots)
	}
	return hostlist.Join(entries)
}

// Width is how many CPUs a task of the allocation has, at least one, and which variable says
// so; empty: none does.
func (a Allocation) Width() (cpus int, variable string) {
	if a.manager == nil || a.width == nil {
		return 1, ""
	}
	return a.width(a.world)
}

// lines reads a file with a host on each line, as often as it has slots.
func lines(w World, variable, file string) ([]hostlist.Entry, error) {
	entries, err := hostlist.ReadFile(file, w.Open, nil)
	if err != nil {
		err = fmt.Errorf("%s: %w", variable, err)
	}
	return entries, err
}

// value is that of the first of some variables that is not empty.
func (w World) value(names []string) string {
	_, value := w.said(names)
	return value
}

// said is the first of some variables that is not empty; if all are, the first.
func (w World) said(names []string) (name, value string) {
	for _, name := range names {
		if value, _ := w.Env(name); value != "" {
			return name, value
		}
	}
	if len(names) > 0 {
		name = names[0]
	}
	return name, ""
}
