package batch

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// lsf describes LSF. LSF lists the hosts of a job in a file or a variable. mpiexec uses the first of four variables
// that is set (rm-integration.md 2.3).
//
// mpiexec starts a task of the LSF job on each host other than this one. This follows LSF's manuals; nobody has tried
// it yet:
//
//	mpiexec --- blaunch ...... sbatchd, res --- /bin/sh --- reaper --- helper --- ranks
//	         '- helper --- ranks                here: below the res of the script
//
// mpiexec and the helper communicate through the standard streams of blaunch, which also forwards signals and the exit
// status.
var lsf = System{
	Name: "lsf", Title: "LSF", Within: "start mpiexec in a job script (bsub -n)", Untried: true,

	Variable: "LSB_JOBID",
	Inside:   func(w Inputs) bool { return w.set("LSB_JOBID") },
	Job: func(w Inputs) string {
		if n := w.count("LSB_JOBINDEX"); n > 0 {
			return fmt.Sprintf("%s[%d]", w.value("LSB_JOBID"), n)
		}
		return w.value("LSB_JOBID")
	},
	Hosts: lsfHosts,
	State: lsfState,

	Starter: &Starter{
		Program: "blaunch",
		Argv:    blaunch,
		Fanout:  16, StartTimeout: 30 * time.Second,
		EndGrace: 700 * time.Millisecond, EndsAtSIGTERM: true,
		DefaultRemedy: `check that "blaunch HOST true" works here, or use -launcher ssh`,
		ErrorLine:     func(stderr string) string { return lastOf(stderr, nil, []string{"blaunch: "}) },
	},
	OpenMPI: "lsf",

	KillDelay: 10 * time.Second,
	Holder:    Holder{Processes: []string{"res"}, Variables: []string{"LSB_JOBID"}},
}

func lsfHosts(w Inputs, options Options) (Allocation, error) {
	var l list
	source, err := l.readLSF(w)
	a := Allocation{Source: source, Hosts: l.all()}
	if err != nil {
		return a, err
	}
	if len(a.Hosts) == 0 {
		return a, newUnreadError(source + " contains no host")
	}
	a.Warnings = w.countWarnings("LSB_DJOB_NUMPROC", source, a.Tasks())
	return a, nil
}

// readLSF reads the hosts from the first of LSF's variables that is set, and returns that variable's name.
func (l *list) readLSF(w Inputs) (source string, err error) {
	if source = "LSB_AFFINITY_HOSTFILE"; w.set(source) {
		missing, wrong := w.readLines(source, w.value(source), l.parseAffinityLine)
		if !errors.Is(missing, errEmpty) {
			return source, linesError(missing, wrong)
		}
	}
	if source = "LSB_DJOB_HOSTFILE"; w.set(source) {
		*l, err = w.readFile(source, FormNodes)
		return source, err
	}
	source, text := w.first("LSB_MCPU_HOSTS", "LSB_HOSTS")
	switch {
	case text == "":
		return source, newUnreadError("none of LSB_AFFINITY_HOSTFILE, LSB_DJOB_HOSTFILE, LSB_MCPU_HOSTS, LSB_HOSTS is set")
	case source == "LSB_HOSTS":
		err = l.addTasks(strings.Fields(text))
	default:
		err = l.addPairs(strings.Fields(text))
	}
	if err != nil {
		err = listError(source, err)
	}
	return source, err
}

// parseAffinityLine parses a line that describes one task: a host and a list of CPUs. It ignores any further words.
func (l *list) parseAffinityLine(number int, words []string) error {
	h := Host{Name: words[0], Tasks: 1, Line: number, PartialList: len(words) == 1}
	if len(words) > 1 {
		h.List = words[1]
		if _, ok := setSize(h.List); !ok {
			return fmt.Errorf("%s is not a list of CPUs", quoted(words[1]))
		}
	}
	return l.add(h)
}

// addPairs adds the hosts of words, in which host names and slot counts alternate: "a 4 b 4". It leaves out hosts with
// 0 slots.
func (l *list) addPairs(words []string) error {
	for i := 0; i < len(words); i += 2 {
		if i+1 == len(words) {
			return fmt.Errorf("the slot count of %s is missing", quoted(words[i]))
		}
		n, err := slotCount(words[i+1])
		if err != nil {
			return err
		}
		if err := hostName(words[i]); err != nil || n == 0 {
			if err != nil {
				return err
			}
			continue
		}
		if err := l.add(Host{Name: words[i], Tasks: n}); err != nil {
			return err
		}
	}
	return nil
}

// blaunch returns the command line by which LSF's program blaunch starts Shell on the host of c (rule RM-30).
func blaunch(c Call) []string {
	return slices.Concat([]string{c.Program}, c.ExtraArgs, []string{c.Host, Shell})
}

// lsfState returns the state of a job as bjobs reports it.
func lsfState(run Run, job string) State {
	text, err := run("bjobs", "-noheader", "-o", "stat", job)
	switch state := strings.TrimSpace(text); {
	case err != nil:
	case state == "RUN":
		return Runs
	case slices.Contains([]string{"USUSP", "SSUSP", "PSUSP"}, state):
		return Suspended
	case slices.Contains([]string{"EXIT", "DONE", "ZOMBI"}, state):
		return Over
	}
	return Unknown
}
