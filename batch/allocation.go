package batch

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"remshell/pin"
	"remshell/usererr"
)

// Inputs gives the functions of this package access to environment variables, files and programs. From these they find
// out what they need to know about a batch job.
type Inputs struct {
	Env  func(name string) (value string, defined bool)
	Open func(name string) (io.ReadCloser, error) // for the files that variables name

	Run Run // within the time that the program has (RM-4); nil: no program is run
}

// Options are the user's options that affect which hosts an Allocation contains.
type Options struct {
	Job    bool   // use the whole job, also inside a Slurm step (--batch-option scope=job)
	Groups []int  // of a heterogeneous job, from 0 (--het-group); nil: all
	File   string // of the system "file": where the list is (--rm-file)
	Form   string // of that list: FormNodes (also empty), FormCounts or FormPE
}

// An Allocation lists the hosts that a batch system has allocated to a job.
type Allocation struct {
	System       string // slurm, pbs, ...
	Job          string // its ID there; empty: it has none
	Step         string // the step of the job, which has CPUs of its own (RM-11); empty: the whole job
	Source       string // the variable or file that lists the hosts
	Hosts        []Host // in its order, each once; at least one
	Width        int    // CPUs of each task, at least 1
	WidthFrom    string // the variable that sets Width; empty: none
	End          time.Time
	Warnings     []string // about contradictions
	OtherSystem  string   // another batch system around mpiexec that lists other hosts; empty: none
	TasksUnknown bool     // the batch system gives no number of tasks: each host has as many as CPUs
	Folder       string   // directory of the job on this host; empty: none
	Idle         bool     // another copy of mpiexec starts the job, and this one only waits (RM-10, HTCondor)
}

// A Host is one host of an Allocation.
type Host struct {
	Name        string
	Tasks       int                // 0: unknown
	CPUs        int                // at least Tasks x Width; 0: unknown
	List        string             // the granted CPUs as the batch system writes them; empty: unknown
	Numbering   pin.GrantNumbering // how List numbers the CPUs
	PartialList bool               // List lacks the CPUs of some tasks
	GPUs        string             // indices of the granted GPUs; empty: unknown
	Line        int                // of the file that names it first, from 1; 0: no file does
	Group       int                // of a heterogeneous job, from 0
	Rank        int                // of the broker there (Flux), from 0
	Login       Login              // of the SSH server that was started there for this job (HTCondor)

	Folder string // of the job there, which has different names on the hosts (HTCondor); empty: there is none
}

// A Login says how to log in to an SSH server that was started for one job. The zero value means that no server was
// started.
type Login struct {
	User string
	Port int
	Key  string // file of the private key
}

// HasLogin reports whether an SSH server was started on the host for the job.
func (h Host) HasLogin() bool { return h.Login != Login{} }

// Tasks returns the total number of tasks of all hosts.
func (a Allocation) Tasks() (n int) {
	for _, h := range a.Hosts {
		n += h.Tasks
	}
	return n
}

// CPUs returns the total number of CPUs of all hosts.
func (a Allocation) CPUs() (n int) {
	for _, h := range a.Hosts {
		n += h.CPUs
	}
	return n
}

// Known reports whether Read accepts name: the name of a batch system, or "file".
func Known(name string) bool { return Named(name) != nil || name == fileSystem }

// remedyNameHosts is the hint that is printed if mpiexec cannot use the host list of a batch system (rule RM-3).
const remedyNameHosts = "to use other hosts, list them with -host; to use only this host, add -rmk none"

// Read returns the allocation that a batch system, or a file of the user, describes. It must only be called if
// Known(system) is true.
func Read(system string, w Inputs, options Options) (Allocation, error) {
	if system == fileSystem {
		return ofFile(w, options)
	}
	s := Named(system)
	switch {
	case options.Groups != nil && !s.Groups:
		return Allocation{}, noGroups(s.Title)
	case !s.Inside(w):
		return Allocation{}, &usererr.Error{
			Text:   fmt.Sprintf("-rmk %s: %s is not set", system, s.Variable),
			Remedy: "run mpiexec inside an allocation, or list hosts with -host",
		}
	}
	if err := s.refuseCopies(w); err != nil {
		return Allocation{}, err
	}
	a, err := s.Hosts(w, options)
	var why unreadError
	if errors.As(err, &why) {
		err = &usererr.Error{Text: fmt.Sprintf("mpiexec cannot read the hosts of %s: %s", JobName(s.Name, s.Job(w)), why.reason), Remedy: cmp.Or(why.remedy, remedyNameHosts)}
	}
	if err != nil && usererr.Hint(err) == "" { // what the list says is wrong
		err = &usererr.Error{Text: err.Error(), Remedy: remedyNameHosts}
	}
	if err != nil {
		return a, err
	}
	a.System, a.Job, a.Width = s.Name, s.Job(w), max(1, a.Width)
	for i := range a.Hosts {
		a.Hosts[i].CPUs = max(a.Hosts[i].CPUs, a.Hosts[i].Tasks*a.Width)
	}
	a.OtherSystem = s.otherSystem(w, a)
	return a, nil
}

// refuseCopies returns an error if the batch system has started several copies of mpiexec, since each copy would
// start the whole job (rule RM-10).
func (s *System) refuseCopies(w Inputs) error {
	if s.Copies == nil {
		return nil
	}
	starter := s.Copies(w)
	if starter == "" {
		return nil
	}
	return &usererr.Error{
		Text:   fmt.Sprintf("the batch system started several copies of mpiexec (probably with %s), and each copy would start the whole job", starter),
		Remedy: "start mpiexec once, or add -rmk none, so that each copy uses only its own host",
	}
}

// noGroups returns the error for --het-group if the job's hosts come from a source that has no groups. source names it:
// the title of a batch system, or the option --rm-file.
func noGroups(source string) error {
	return &usererr.Error{Text: fmt.Sprintf("--het-group works only in heterogeneous jobs of %s, but the hosts come from %s", GroupOwners("and"), source), Remedy: "leave out --het-group"}
}

// otherSystem returns the name of another batch system, other than s, in whose job mpiexec also runs, if that job has
// other hosts than a.Hosts (rule RM-3). It returns "" if there is no such system.
func (s *System) otherSystem(w Inputs, a Allocation) string {
	if s.Nested {
		return ""
	}
	for _, other := range Systems[slices.Index(Systems, s)+1:] {
		if !other.Inside(w) {
			continue
		}
		if b, err := other.Hosts(w, Options{}); err == nil && !sameHosts(a.Hosts, b.Hosts) {
			return other.Name
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

// An unreadError says why mpiexec cannot read the hosts of the batch job in which it runs (rule RM-3).
type unreadError struct {
	reason string
	remedy string // empty: remedyNameHosts
}

func (e unreadError) Error() string { return e.reason }

func newUnreadError(reason string) error { return unreadError{reason: reason} }

// first returns the name and value of the first variable in names that is set and not empty. If there is none, it
// returns the first name and "".
func (w Inputs) first(names ...string) (name, value string) {
	for _, name := range names {
		if value := w.value(name); value != "" {
			return name, value
		}
	}
	return names[0], ""
}

func (w Inputs) value(name string) string {
	value, _ := w.Env(name)
	return value
}

// set reports whether the named environment variable is set and not empty.
func (w Inputs) set(name string) bool { return w.value(name) != "" }

// count returns the value of the named environment variable, or 0 if the value is not a positive number.
func (w Inputs) count(name string) int {
	n, _ := number(w.value(name))
	return n
}

// end returns the time at which the job must end. The named environment variable contains it in seconds since 1970. If
// the variable contains no positive number, end returns the zero time.
func (w Inputs) end(name string) time.Time {
	if n := w.count(name); n > 0 {
		return time.Unix(int64(n), 0)
	}
	return time.Time{}
}
