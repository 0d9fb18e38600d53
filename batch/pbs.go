package batch

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"
)

// pbs describes PBS, which stands for OpenPBS, PBS Professional and Torque. PBS writes a file with a line for each slot
// (rm-integration.md 2.1).
//
// The program pbs_tmrsh asks PBS's task manager to start a task of the job on a host (tried with OpenPBS 23.06.06). The
// task receives neither the input nor the environment of pbs_tmrsh, and its output goes to the files of the job. Its
// environment is the job's own, which includes PBS_JOBCOOKIE:
//
//	mpiexec --- pbs_tmrsh ...... pbs_mom ...... pbs_mom --- /bin/sh -c SCRIPT    exec: reaper --- helper --- ranks
//	 |  '======================================== TLS ======================================='
//	 '- helper --- ranks                  here: below the script's shell
//
// With -launcher pbs_attach, mpiexec connects to hosts by ssh. The shell on the host runs pbs_attach, which makes the
// processes of the shell's session part of the job (according to OpenPBS's manuals):
//
//	mpiexec --- sshd --- /bin/sh - pbs_attach -j JOB -p PID    exec: reaper --- helper --- ranks, all in this session
var pbs = System{
	Name: "pbs", Title: "PBS", Within: "start mpiexec in a job script (qsub)",
	Products: []string{"Torque", "OpenPBS", "PBSPro"},

	Variable: "PBS_JOBID",
	Inside:   func(w Inputs) bool { return w.set("PBS_JOBID") },
	Job:      func(w Inputs) string { return w.value("PBS_JOBID") },
	Copies: func(w Inputs) (starter string) {
		if w.count("PBS_TASKNUM") > 1 {
			return "pbsdsh"
		}
		return ""
	},
	Hosts:   pbsHosts,
	Threads: func(w Inputs) int { return w.count("NCPUS") },

	Starter: &Starter{
		Program: "pbs_tmrsh", Second: "pbsdsh", Folders: pbsFolders,
		Argv: pbsTask, Secret: "PBS_JOBCOOKIE", DialsBack: true,
		Fanout: 16, StartTimeout: 60 * time.Second,
		EndGrace:      time.Second,
		DefaultRemedy: `check that "pbs_tmrsh HOST true" works here, or use -launcher ssh`,
		ErrorLine:     pbsLine,
	},
	Attach:  &Attach{Program: "pbs_attach", JobFlag: "-j", ProcessFlag: "-p", Variable: "PBS_JOBID"},
	NoInput: []string{"pbsdsh"},
	OpenMPI: "tm",

	KillDelay: 10 * time.Second,
	Holder:    Holder{Processes: []string{"pbs_mom"}, Variables: []string{"PBS_JOBID"}},
	Sessions:  true,
}

// pbsTask returns the command line that starts a task of this job on a host. The host name must be spelled as in
// PBS_NODEFILE. Under Torque, the program is pbsdsh.
func pbsTask(c Call) []string {
	if path.Base(c.Program) == "pbsdsh" {
		return slices.Concat([]string{c.Program}, c.ExtraArgs, []string{"-h", c.Host, Shell})
	}
	return slices.Concat([]string{c.Program}, c.ExtraArgs, []string{c.Host, Shell})
}

// pbsLine returns the last line in stderr, the error output of pbs_tmrsh, without the program's name.
func pbsLine(stderr string) string {
	_, line, named := strings.Cut(lastOf(stderr, nil, nil), "pbs_tmrsh: ")
	if !named {
		return lastOf(stderr, nil, nil)
	}
	return line
}

// maxPBSConf is the maximum number of bytes that are read from /etc/pbs.conf.
const maxPBSConf = 64 << 10

// pbsFolders returns a list with the directory of PBS's programs, which is a subdirectory of PBS_EXEC. PBS_EXEC is an
// environment variable, or is set by a line NAME=VALUE in /etc/pbs.conf. If it is not set, pbsFolders returns nil.
func pbsFolders(w Inputs) []string {
	above := w.value("PBS_EXEC")
	if above == "" && w.Open != nil {
		if f, err := w.Open("/etc/pbs.conf"); err == nil {
			text, _ := io.ReadAll(io.LimitReader(f, maxPBSConf))
			f.Close()
			for line := range strings.Lines(string(text)) {
				if value, found := strings.CutPrefix(strings.TrimSpace(line), "PBS_EXEC="); found {
					above = value
				}
			}
		}
	}
	if above == "" {
		return nil
	}
	return []string{path.Join(above, "bin")}
}

// pbsHosts returns the hosts of PBS_NODEFILE. Under Torque, which sets PBS_NUM_PPN or PBS_NP, each line of the file
// stands for a CPU. Under OpenPBS and PBS Professional, each line stands for a process of a chunk, which may have
// several CPUs.
func pbsHosts(w Inputs, _ Options) (Allocation, error) {
	a := Allocation{Source: "PBS_NODEFILE", Width: 1}
	l, err := w.readFile(a.Source, FormNodes)
	if err != nil {
		return a, err
	}
	a.Hosts = l.all()
	if n := w.count("NCPUS"); n > 0 && n <= maxCount && !w.set("PBS_NUM_PPN") && !w.set("PBS_NP") {
		a.Width, a.WidthFrom = max(1, n/a.Hosts[0].Tasks), "NCPUS"
	}
	if w.set("PBS_GPUFILE") {
		err = pbsGPUs(w, a.Hosts)
	}
	return a, err
}

// pbsGPUs reads Torque's list of GPUs and adds the GPUs to hosts. Each line of that list has the form "host-gpu0".
func pbsGPUs(w Inputs, hosts []Host) error {
	const source = "PBS_GPUFILE"
	at := make(map[string]int)
	for i, h := range hosts {
		at[key(h.Name)] = i
	}
	var gpus pieces
	missing, wrong := w.readLines(source, w.value(source), func(_ int, words []string) error {
		cut := strings.LastIndex(words[0], "-gpu")
		if cut < 0 || len(words) > 1 {
			return fmt.Errorf("%s does not have the form HOST-gpuN", quoted(strings.Join(words, " ")))
		}
		name := words[0][:cut]
		gpu := words[0][cut+len("-gpu"):]
		if _, ok := number(gpu); !ok {
			return fmt.Errorf("%s does not have the form HOST-gpuN", quoted(words[0]))
		}
		i, found := at[key(name)]
		if !found {
			i = slices.IndexFunc(hosts, func(h Host) bool { return sameShort(h.Name, name) })
		}
		if i < 0 {
			return fmt.Errorf("PBS_NODEFILE does not list the host %s", quoted(name))
		}
		at[key(name)] = i
		gpus.add(i, gpu)
		return nil
	})
	for i := range hosts {
		hosts[i].GPUs = gpus.appendTo(hosts[i].GPUs, i)
	}
	return linesError(missing, wrong)
}

// sameShort reports whether two host names are equal up to the first dot and only one of them has a
// domain.
func sameShort(a, b string) bool {
	short, _, domain := strings.Cut(a, ".")
	other, _, others := strings.Cut(b, ".")
	return domain != others && strings.EqualFold(short, other)
}
