/*
Package batch knows what a batch system has given to the job in which mpiexec was started
(HOST-10; rm-integration.md 1 and 2). It reads the batch system's variables, the files that they
name, and what its own programs print, which it is handed.

	variables --Inside--> the name of a system --Of--> Allocation
	                                             '---> why it must not be used: M1 to M6

Each system has a file of its own, with its row of the table below; what their lists have in
common is in names.go (host lists, counts) and lines.go (files, hosts that are named again).
*/
package batch

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"remshell/fault"
	"remshell/pin"
)

// A World is where an allocation is looked for.
type World struct {
	Env  func(name string) (value string, defined bool)
	Open func(name string) (io.ReadCloser, error) // for the files that variables name

	// Run is what a program prints, within the time that it has (RM-4). An error says why it
	// has not, in one line. Nil: no program is run.
	Run func(name string, args ...string) (string, error)
}

// A Wish is what the user has said about an allocation.
type Wish struct {
	Job    bool   // of a Slurm step: the whole job (--batch-option scope=job)
	Groups []int  // of a heterogeneous job, from 0 (--het-group); nil: all
	File   string // of the system "file": where the list is (--rm-file)
	Form   string // of that list: FormNodes (also empty), FormCounts or FormPE
}

// An Allocation is what a batch system has given to a job.
type Allocation struct {
	System    string // slurm, pbs, ...
	Job       string // its number there; empty: it has none
	Step      string // the part of the job that this is, which has CPUs of its own (RM-11); empty: all of it
	Source    string // the variable, or file, that tells of the hosts
	Hosts     []Host // in its order, each once; at least one
	Width     int    // CPUs of each task, at least 1
	WidthFrom string // the variable that says so; empty: none does
	End       time.Time
	Warnings  []string // of what does not fit together
	Beside    string   // another batch system that names other hosts; empty: none does
	Uncounted bool     // nobody said how many tasks there are: hosts have as many as CPUs
	Folder    string   // of the job on this host; empty: there is none
	Idle      bool     // another copy of us starts the job: there is nothing to do (RM-10, HTCondor)
}

// A Host is one of an allocation.
type Host struct {
	Name  string
	Tasks int         // 0: not said
	CPUs  int         // at least Tasks x Width; 0: not said
	List  string      // the CPUs themselves, as far as they are told, in the words of the list
	By    pin.GrantBy // how these words count
	Bare  bool        // of some of its tasks the CPUs are not told, so List is not all of them
	GPUs  string      // likewise, their indices
	Bytes int64       // of memory; 0: not said
	Line  int         // of the file that names it first, from 1; 0: no file does
	Group int         // of a heterogeneous job, from 0
	Rank  int         // of the broker there (Flux), from 0
	Login Login       // of the SSH server that was started there for this job (HTCondor)

	Folder string // of the job there, which has different names on the hosts (HTCondor); empty: there is none
}

// A Login is how an SSH server that was started for one job lets its user in. The zero value is none.
type Login struct {
	User string
	Port int
	Key  string // file of the private key
}

// LetsIn reports whether a host has an SSH server of this job's.
func (h Host) LetsIn() bool { return h.Login != Login{} }

// Tasks are those of all hosts.
func (a Allocation) Tasks() (n int) {
	for _, h := range a.Hosts {
		n += h.Tasks
	}
	return n
}

// CPUs are those of all hosts.
func (a Allocation) CPUs() (n int) {
	for _, h := range a.Hosts {
		n += h.CPUs
	}
	return n
}

// A manager is a batch system.
type manager struct {
	name   string
	needs  string // the variable without which we are not inside, for messages
	inside func(w World) bool
	job    func(w World) string
	read   func(w World, wish Wish) (Allocation, error)
	// How often it has started us, in words; empty: once. by is the program that may have.
	copies func(w World) (times, by string)
}

// managers are those we know, in the order in which one may run inside of another (RM-1).
var managers = []*manager{&flux, &slurm, &lsf, &sge, &cobalt, &pbs, &loadLeveler, &condor, &alps}

func named(system string) *manager {
	i := slices.IndexFunc(managers, func(m *manager) bool { return m.name == system })
	if i < 0 {
		return nil
	}
	return managers[i]
}

// Known reports whether a batch system is called so.
func Known(system string) bool { return named(system) != nil || system == fileSystem }

// Inside finds the batch system in whose job we are, and its number of the job; an empty system:
// none.
func Inside(w World) (system, job string) {
	for _, m := range managers {
		if m.inside(w) {
			return m.name, m.job(w)
		}
	}
	return "", ""
}

// elsewhere is how to go on where the list of a batch system is of no use (RM-3).
const elsewhere = "name hosts with -host, or run here with -rmk none"

// Of is what the batch system of that name, which is Known, has given us.
func Of(system string, w World, wish Wish) (Allocation, error) {
	if system == fileSystem {
		return ofFile(w, wish)
	}
	m := named(system)
	switch {
	case wish.Groups != nil && m != &slurm:
		return Allocation{}, &fault.Error{Text: fmt.Sprintf("--het-group is for Slurm's heterogeneous jobs, and the hosts are those of %s", system), Remedy: "leave it out"}
	case !m.inside(w):
		return Allocation{}, &fault.Error{
			Text:   fmt.Sprintf("-rmk %s: %s is not set", system, m.needs),
			Remedy: "run inside an allocation, or name hosts with -host",
		}
	}
	if err := m.once(w); err != nil {
		return Allocation{}, err
	}
	a, err := m.read(w, wish)
	var why unreadError
	if errors.As(err, &why) {
		err = &fault.Error{Text: fmt.Sprintf("inside %s, but its hosts cannot be read: %s", spoken(m.name, m.job(w)), why.text), Remedy: cmp.Or(why.remedy, elsewhere)}
	}
	if err != nil && fault.Hint(err) == "" { // what the list says is wrong
		err = &fault.Error{Text: err.Error(), Remedy: elsewhere}
	}
	if err != nil {
		return a, err
	}
	a.System, a.Job, a.Width = m.name, m.job(w), max(1, a.Width)
	for i := range a.Hosts {
		a.Hosts[i].CPUs = max(a.Hosts[i].CPUs, a.Hosts[i].Tasks*a.Width)
	}
	a.Beside = m.beside(w, a)
	return a, nil
}

// once refuses that the batch system has started several of us, each of which would start the
// whole job (RM-10, M5).
func (m *manager) once(w World) error {
	if m.copies == nil {
		return nil
	}
	times, by := m.copies(w)
	if times == "" {
		return nil
	}
	return &fault.Error{
		Text:   fmt.Sprintf("started %s by the batch system (%s?), and each would start the whole job", times, by),
		Remedy: "start it once, or let each use its own host with -rmk none",
	}
}

// beside names a system that we are inside of, too, and that names other hosts (RM-3). Flux is
// meant to be inside of another.
func (m *manager) beside(w World, a Allocation) string {
	if m == &flux {
		return ""
	}
	for _, other := range managers[slices.Index(managers, m)+1:] {
		if !other.inside(w) {
			continue
		}
		if b, err := other.read(w, Wish{}); err == nil && !sameHosts(a.Hosts, b.Hosts) {
			return other.name
		}
	}
	return ""
}

func sameHosts(a, b []Host) bool {
	names := func(hosts []Host) (names []string) {
		for _, h := range hosts {
			names = append(names, key(h.Name))
		}
		slices.Sort(names)
		return names
	}
	return slices.Equal(names(a), names(b))
}

// unreadError says why we do not know the hosts of a job that we are inside of (M2).
type unreadError struct {
	text   string
	remedy string // empty: elsewhere
}

func (e unreadError) Error() string { return e.text }

func unread(text string) error { return unreadError{text: text} }

// spoken is a job of a batch system in words.
func spoken(system, job string) string {
	if job == "" {
		return "a " + system + " job"
	}
	return system + " job " + job
}

// first is the first of some variables that is not empty; if all are, the name of the first.
func (w World) first(names ...string) (name, value string) {
	for _, name := range names {
		if value := w.value(name); value != "" {
			return name, value
		}
	}
	return names[0], ""
}

func (w World) value(name string) string {
	value, _ := w.Env(name)
	return value
}

// set reports whether a variable is set and not empty.
func (w World) set(name string) bool { return w.value(name) != "" }

// count is a variable that is a number of at least 1; 0: it is none.
func (w World) count(name string) int {
	n, _ := number(w.value(name))
	return n
}

// end is when an allocation ends, if a variable has it as seconds since 1970.
func (w World) end(name string) time.Time {
	if n := w.count(name); n > 0 {
		return time.Unix(int64(n), 0)
	}
	return time.Time{}
}
