package batch

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
	"time"

	"remshell/pin"
)

// gridEngine describes Grid Engine. Grid Engine writes a file with the hosts for the master task of a parallel
// environment. JOB_ID alone does not indicate Grid Engine, because other programs set this variable, too
// (rm-integration.md 2.4).
//
// mpiexec starts a task of the Grid Engine job on each host other than this one (tried with Grid Engine 8.1.9):
//
//	mpiexec --- qrsh ...... sge_execd --- sge_shepherd --- qrsh_starter --- a shell --- /bin/sh --- reaper --- helper --- ranks
//	 |  |    '- qrsh ...... sge_execd --- sge_shepherd --- ...                                                       |
//	 |  '================================================ TLS ======================================================='
//	 '- helper --- ranks                               here: below the sge_shepherd of the script
//
// The helpers dial back to mpiexec (package dialback). If a helper cannot connect, it uses the streams of its qrsh.
// qrsh passes all bytes of these streams unchanged. If qrsh receives more than 64 KiB before the first output of its
// shell, it hangs forever and ignores SIGTERM. After that output, it passes any number of bytes in both directions.
// So mpiexec sends only the delivery script before the first output (rule RM-36).
//
// Grid Engine does not announce that it ends a job. It kills all processes of the job by SIGKILL, including mpiexec.
// It also ends a job if a task of the job was killed. In that case the killed task is the cause of the job's end.
var gridEngine = System{
	Name: "sge", Title: "Grid Engine", Within: "start mpiexec in a job script (qsub -pe)",

	Variable: "JOB_ID",
	Inside: func(w Inputs) bool {
		return w.set("JOB_ID") && (w.set("PE_HOSTFILE") || w.set("SGE_TASK_ID") || w.set("SGE_ROOT"))
	},
	Job: func(w Inputs) string {
		if task := w.value("SGE_TASK_ID"); task != "" && task != "undefined" {
			return w.value("JOB_ID") + "." + task
		}
		return w.value("JOB_ID")
	},
	Hosts: sgeHosts,
	State: sgeState,

	Starter: &Starter{
		Program: "qrsh", Folders: func(w Inputs) []string { return []string{w.value("SGE_BINARY_PATH")} },
		Argv: qrsh, DialsBack: true,
		Fanout: 16, StartTimeout: 60 * time.Second,
		EndGrace: 700 * time.Millisecond,
		ErrorPatterns: []ErrorPattern{
			{Pattern: "didn't accept task", Busy: true, Why: "Grid Engine has no slot for another task", Remedy: "set control_slaves TRUE in the parallel environment, or use -launcher ssh"},
		},
		DefaultRemedy: `check that "qrsh -inherit HOST true" works here, or use -launcher ssh`,
		ErrorLine:     qrshLine,
	},

	Holder: Holder{Processes: []string{"sge_shepherd"}, Variables: []string{"JOB_ID"}},
	Memory: "-l h_vmem=1G",
}

// sgeHosts returns the hosts of the parallel environment. If the job has no parallel environment, sgeHosts returns
// only this host.
func sgeHosts(w Inputs, _ Options) (Allocation, error) {
	if !w.set("PE_HOSTFILE") {
		n := max(1, w.count("NSLOTS"))
		if n > maxCount {
			return Allocation{}, listError("NSLOTS", fmt.Errorf("%s is not a slot count", quoted(w.value("NSLOTS"))))
		}
		return Allocation{Source: "NSLOTS", Hosts: []Host{{Name: "localhost", Tasks: n}}}, nil
	}
	l, err := w.readFile("PE_HOSTFILE", FormPE)
	a := Allocation{Source: "PE_HOSTFILE", Hosts: l.all()}
	if err != nil {
		return a, err
	}
	a.Warnings = w.countWarnings("NSLOTS", a.Source, a.Tasks())
	return a, nil
}

// parsePELine parses a line of PE_HOSTFILE: a host, its slots, a queue, and CPUs. A CPU is a pair of socket and core
// numbers, counted from 0.
func (l *list) parsePELine(line int, words []string) error {
	if len(words) > 4 {
		return fmt.Errorf("unexpected %s after the list of CPUs", quoted(words[4]))
	}
	if err := l.countLineParser(true)(line, words[:min(2, len(words))]); err != nil {
		return err
	}
	at := l.at[key(words[0])]
	h := &l.hosts[at]
	if len(words) < 4 || words[3] == "UNDEFINED" || words[3] == "<NULL>" {
		h.PartialList = true
		return nil
	}
	for pair := range strings.SplitSeq(words[3], ":") {
		socket, core, ok := strings.Cut(pair, ",")
		_, ok1 := number(socket)
		_, ok2 := number(core)
		if !ok || !ok1 || !ok2 {
			return fmt.Errorf("%s is not SOCKET,CORE", quoted(pair))
		}
	}
	l.lists.add(at, words[3])
	h.Numbering = pin.SocketCores
	return nil
}

// qrsh returns the command line that starts a task of this Grid Engine job on a host (rule RM-30). The host name
// must be spelled as in PE_HOSTFILE.
func qrsh(c Call) []string {
	return slices.Concat([]string{c.Program, "-inherit"}, c.ExtraArgs, []string{c.Host, Shell})
}

// qrshLine returns the last line of qrsh's standard error, without the prefix that qrsh puts before each of its
// lines.
func qrshLine(stderr string) string {
	line := lastOf(stderr, nil, []string{"error: "})
	if rest, own := strings.CutPrefix(line, "executing task of job "); own {
		_, why, _ := strings.Cut(rest, " failed: ")
		return why
	}
	return line
}

// jobsOfSGE is the output of qstat -xml: a list of the user's running jobs.
type jobsOfSGE struct {
	Running []struct {
		Number string `xml:"JB_job_number"`
		State  string `xml:"state"`
		Task   string `xml:"tasks"` // of an array
	} `xml:"queue_info>job_list"`
}

// sgeState determines the state of a Grid Engine job from the state letters in the output of qstat: r is running, t is
// starting, d is being deleted, and S, s and T are suspended.
func sgeState(run Run, job string) State {
	text, err := run("qstat", "-xml")
	var jobs jobsOfSGE
	if err != nil || xml.Unmarshal([]byte(text), &jobs) != nil {
		return Unknown
	}
	number, task, _ := strings.Cut(job, ".")
	for _, j := range jobs.Running {
		switch {
		case j.Number != number || task != "" && task != j.Task, strings.Contains(j.State, "d"):
		case strings.ContainsAny(j.State, "sST"):
			return Suspended
		case strings.ContainsAny(j.State, "rt"):
			return Runs
		}
	}
	return Unknown
}
