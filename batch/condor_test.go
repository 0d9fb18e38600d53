package batch

import (
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

// What HTCondor's files give to a job, as 23.9 and its sshd.sh write them, and why they must not be used.
func TestCondorFiles(t *testing.T) {
	const (
		vanilla  = "_CONDOR_JOB_AD=s/.job.ad _CONDOR_MACHINE_AD=s/.machine.ad _CONDOR_SCRATCH_DIR=s"
		parallel = "_CONDOR_PROCNO=0 _CONDOR_NPROCS=2 " + vanilla
		job      = "ClusterId = 12\nProcId = 3\nOwner = \"x\"\nRequestCpus = 2\nTotalCpus = 9.0\n"
		machine  = "Cpus = 4\nDetectedCpus = 64\nTotalCpus = 64.0\nRequirements = START && Cpus = 7\n"
		contact  = "1 n2 4445 jane /x/dir_96 1795704023\n0 n1 4444 jane /x/dir_93 1795704023\n"
		refused  = "mpiexec cannot read the hosts of HTCondor job 12.3: "
	)
	for _, test := range []struct{ name, env, job, machine, contact, want string }{
		{"vanilla: this host, with the CPUs of the slot", vanilla, job, machine, "", "condor 12.3 by _CONDOR_MACHINE_AD: localhost:4/4"},
		{"vanilla, no description of the slot", vanilla, job, "", "", "condor 12.3 by _CONDOR_JOB_AD: localhost:2/2"},
		{"vanilla, CPUs asked for by an expression", vanilla, "ClusterId = 5\nRequestCpus = ifThenElse(a, 1, 2)\n", "", "", "mpiexec cannot read the hosts of HTCondor job 5.0: _CONDOR_MACHINE_AD: open s/.machine.ad: file does not exist"},
		{"vanilla, no number of CPUs", vanilla, "ClusterId = 12\nProcId = 3\n", "Cpus = 0\n", "", refused + "neither .machine.ad nor .job.ad contains the number of CPUs of the job"},
		{"vanilla, more CPUs than can be", vanilla, "ClusterId = 12\nProcId = 3\n", "Cpus = 1048577\n", "", refused + "neither .machine.ad nor .job.ad contains the number of CPUs of the job"},
		{"vanilla, a machine file of somebody's", "MACHINE_FILE=s/contact " + vanilla, job, machine, "n7\n", "condor 12.3 by _CONDOR_MACHINE_AD: localhost:4/4"},
		{"parallel, one node", "_CONDOR_PROCNO=0 _CONDOR_NPROCS=1 " + vanilla, job, machine, "", "condor 12.3 by _CONDOR_MACHINE_AD: localhost:4/4"},
		{"parallel", parallel, job, machine, contact, "condor 12.3 by contact: n1:2/2(jane 4444 s/tmp/0.key in /x/dir_93) n2:2/2(jane 4445 s/tmp/1.key in /x/dir_96)"},
		{"parallel, CPUs not told", parallel, "ClusterId = 12\nProcId = 3\n", machine, contact, "condor 12.3 by contact: n1:1/1(jane 4444 s/tmp/0.key in /x/dir_93) n2:1/1(jane 4445 s/tmp/1.key in /x/dir_96)"},
		{"parallel, two nodes on one host", parallel, job, machine, strings.ReplaceAll(contact, "n2", "N1"), "condor 12.3 by contact: n1:4/4(jane 4444 s/tmp/0.key in /x/dir_93)"},
		{"parallel, an older version", parallel, job, machine, strings.ReplaceAll(contact, " 1795704023", ""), "condor 12.3 by contact: n1:2/2(jane 4444 s/tmp/0.key in /x/dir_93) n2:2/2(jane 4445 s/tmp/1.key in /x/dir_96)"},
		{"parallel, lines of earlier runs", parallel, job, machine, "0 old 4444 jane /x 1795704001\n1 older 4444 jane /x 1695704002\n" + contact + "1 old 4444 jane /x 1795704001\n",
			"condor 12.3 by contact: n1:2/2(jane 4444 s/tmp/0.key in /x/dir_93) n2:2/2(jane 4445 s/tmp/1.key in /x/dir_96)"},
		{"parallel, a node is missing", parallel, job, machine, "0 n1 4444 jane /x 7\n1 n2 4444 jane /x 6\n", refused + "s/contact has 1 line for the newest run, but must have one for each of 2 nodes"},
		{"parallel, a node twice", parallel, job, machine, "0 n1 4444 jane /x 7\n0 n2 4444 jane /x 7\n", refused + "s/contact has 2 lines for the newest run, but must have one for each of 2 nodes"},
		{"parallel, a node too many", parallel, job, machine, contact + "2 n3 4444 jane /x 1795704023\n", refused + "s/contact has 3 lines for the newest run, but must have one for each of 2 nodes"},
		{"parallel, no sshd.sh", parallel, job, machine, "", refused + "contact: open s/contact: file does not exist"},
		{"parallel, no folder", "_CONDOR_PROCNO=0 _CONDOR_NPROCS=2", "", "", "", "mpiexec cannot read the hosts of HTCondor: neither MACHINE_FILE nor _CONDOR_SCRATCH_DIR is set"},
		{"parallel, a machine file", "MACHINE_FILE=s/contact " + parallel, job, machine, "n1\nn2 3\n", "condor 12.3 by MACHINE_FILE: n1:1/1 n2:3/3"},
		{"parallel, not such lines", parallel, job, machine, "n1\nn2 3\n", "contact line 1: the line has 1 word, but must have the form PROCNO HOST PORT USER DIR RUN"},
		{"parallel, a port that is none", parallel, job, machine, "0 n1 65536 jane /x 7\n", "contact line 1: the line must have the form PROCNO HOST PORT USER DIR RUN, where PROCNO, PORT and RUN are numbers"},
		{"parallel, a run that is none", parallel, job, machine, "0 n1 4444 jane /x UNDEFINED\n", "contact line 1: the line must have the form PROCNO HOST PORT USER DIR RUN, where PROCNO, PORT and RUN are numbers"},
		{"parallel: a host that is an option", parallel, job, machine, strings.ReplaceAll(contact, "n2", "-oProxyCommand=x"), `contact line 1: "-oProxyCommand=x" is not a host name`},
		{"parallel: a user who is an option", parallel, job, machine, strings.ReplaceAll(contact, "jane", "-oProxyCommand=x"), `contact line 1: "-oProxyCommand=x" is not a user name`},
		{"parallel, a folder that is none", parallel, job, machine, "0 n1 4444 jane x 7\n", `contact line 1: "x" is not an absolute path`},
		{"another node", "_CONDOR_PROCNO=1 _CONDOR_NPROCS=2", "", "", "", "idle"},
	} {
		w := world(test.env)
		files := make(fstest.MapFS)
		for name, text := range map[string]string{"s/.job.ad": test.job, "s/.machine.ad": test.machine, "s/contact": test.contact} {
			if text != "" {
				files[name] = &fstest.MapFile{Data: []byte(text)}
			}
		}
		w.Open = func(name string) (io.ReadCloser, error) {
			if !fs.ValidPath(name) {
				return nil, fs.ErrNotExist
			}
			return files.Open(name)
		}
		if got := told(t, w); got != test.want {
			t.Errorf("%s: %s\nwant %s", test.name, got, test.want)
		}
	}
}
