package batch

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

// What each starter is called with.
func TestArgv(t *testing.T) {
	tried := make(map[string]bool)
	for _, test := range []struct {
		system string
		call   Call
		want   string
	}{
		{"slurm", Call{Part: -1, Help: "  --overlap  Allow"}, "P -N1 -n1 -w n1 --overlap --mpi=none --cpu-bind=none --export=ALL --input=all --kill-on-bad-exit=0 --mem=0 -u -J mpiexec /bin/sh"},
		{"slurm", Call{Part: -1}, "P -N1 -n1 -w n1 --mpi=none --cpu-bind=none --export=ALL --input=all --kill-on-bad-exit=0 --mem=0 -u -J mpiexec /bin/sh"},
		{"slurm", Call{Part: 2, ExtraArgs: []string{"--qos", "high"}}, "P -N1 -n1 -w n1 --het-group=2 --mpi=none --cpu-bind=none --export=ALL --input=all --kill-on-bad-exit=0 --mem=0 -u -J mpiexec --qos high /bin/sh"},
		{"sge", Call{Part: -1}, "P -inherit n1 /bin/sh"},
		{"sge", Call{Part: -1, ExtraArgs: []string{"-verbose"}}, "P -inherit -verbose n1 /bin/sh"},
		{"lsf", Call{Part: -1}, "P n1 /bin/sh"},
		{"pbs", Call{Part: -1, ExtraArgs: []string{"-l", "ann"}}, "P -l ann n1 /bin/sh"},
		{"flux", Call{Part: -1, Rank: 3}, "P exec -r 3 /bin/sh"},
	} {
		tried[test.system] = true
		test.call.Program, test.call.Host = "P", "n1"
		if got := strings.Join(Named(test.system).Starter.Argv(test.call), " "); got != test.want {
			t.Errorf("%s, %+v:\n%s\nwant\n%s", test.system, test.call, got, test.want)
		}
	}
	needCases(t, tried, hasStarter)
}

// One call for several hosts of a part.
func TestStepArgv(t *testing.T) {
	call := func(host string, part int) Call {
		return Call{Program: "P", Host: host, Part: part, Help: "--overlap", ExtraArgs: []string{"--qos", "high"}}
	}
	for want, calls := range map[string][]Call{
		"P -N 2 -n 2 --ntasks-per-node=1 -w n1,n7 --overlap --mpi=none --cpu-bind=none --export=ALL --input=all --kill-on-bad-exit=0 --mem=0 --wait=0 -J mpiexec --qos high /bin/sh":            {call("n1", -1), call("n7", -1)},
		"P -N 1 -n 1 --ntasks-per-node=1 -w n1 --het-group=2 --overlap --mpi=none --cpu-bind=none --export=ALL --input=all --kill-on-bad-exit=0 --mem=0 --wait=0 -J mpiexec --qos high /bin/sh": {call("n1", 2)},
	} {
		if got := strings.Join(Named("slurm").Starter.Step.Argv(calls), " "); got != want {
			t.Errorf("%+v:\n%s\nwant\n%s", calls, got, want)
		}
	}
}

// By which word, and for how many hosts, a starter is called once for all (RM-37).
func TestTogether(t *testing.T) {
	for _, test := range []struct {
		system, word string
		hosts        int
		someMayMiss  bool
		want         bool
	}{
		{"slurm", "auto", 16, false, false},
		{"slurm", "auto", 17, false, true},
		{"slurm", "", 17, false, true},
		{"slurm", "srun", 1000, false, true},
		{"slurm", "slurm", 1000, true, false},
		{"slurm", "slurm-one", 2, false, true},
		{"slurm", "slurm-one", 2, true, true},
		{"slurm", "slurm-each", 1000, false, false},
		{"sge", "auto", 1000, false, false},
	} {
		if got := Named(test.system).Together(test.word, test.hosts, test.someMayMiss); got != test.want {
			t.Errorf("%+v: %t", test, got)
		}
	}
	if ByLauncher("slurm-one") != Named("slurm") || ByLauncher("slurm-each") != Named("slurm") || ByLauncher("sge-one") != nil {
		t.Error("a word means another starter than its own")
	}
}

// PBS's second program, which is all that Torque has.
func TestPBSDSH(t *testing.T) {
	if got := Named("pbs").Starter.Argv(Call{Program: "/usr/bin/pbsdsh", Host: "n1", ExtraArgs: []string{"-s"}}); strings.Join(got, " ") != "/usr/bin/pbsdsh -s -h n1 /bin/sh" {
		t.Errorf("%q", got)
	}
}

// Where PBS says that its programs are: in its job, or in its file.
func TestPBSFolders(t *testing.T) {
	for _, test := range []struct {
		env, conf, want string
	}{
		{"/opt/x", "PBS_EXEC=/opt/pbs\n", "[/opt/x/bin]"},
		{"", "PBS_SERVER=n0\nPBS_EXEC=/opt/pbs\nPBS_START_MOM=1\n", "[/opt/pbs/bin]"},
		{"", "#PBS_EXEC=/opt/pbs\n", "[]"},
		{"", "none", "[]"},
	} {
		w := Inputs{Env: func(string) (string, bool) { return test.env, test.env != "" }, Open: func(name string) (io.ReadCloser, error) {
			if name != "/etc/pbs.conf" || test.conf == "none" {
				return nil, errNothing
			}
			return io.NopCloser(strings.NewReader(test.conf)), nil
		}}
		if got := fmt.Sprint(Named("pbs").Starter.Folders(w)); got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
}

// By which words helpers call back (RM-36).
func TestCalls(t *testing.T) {
	for word, want := range map[string]bool{"": true, "auto": true, "sge": true, "qrsh": true, "sge-streams": false} {
		if got := Named("sge").HelpersDialBack(word); got != want {
			t.Errorf("%q: %t", word, got)
		}
		if Named("slurm").HelpersDialBack(word) {
			t.Errorf("slurm, %q: those of a step for each host call", word)
		}
	}
	if ByLauncher("sge-streams") != Named("sge") || ByLauncher("slurm-streams") != nil {
		t.Error("a word means another starter than its own")
	}
}

// What srun says of one task, while the step goes on.
func TestStepLine(t *testing.T) {
	const said = "srun: error: n1: task 0: Killed\nsrun: error: n12: task 1: Exited with exit code 137\nsrun: error: n2: task 2: Killed"
	for host, want := range map[string]string{"n1": "n1: task 0: Killed", "n12": "n12: task 1: Exited with exit code 137", "n2": "n2: task 2: Killed", "n": ""} {
		if got := Named("slurm").Starter.Step.ErrorLine(said, host); got != want {
			t.Errorf("%s: %q, want %q", host, got, want)
		}
	}
}

// No starter takes what is around us for options of its own, and each knows its job.
func TestEnviron(t *testing.T) {
	around := []string{"PATH=/bin", "SLURM_JOB_ID=7", "SLURM_STEP_NODELIST=n1", "SLURM_CPU_BIND_TYPE=mask", "SLURM_NTASKS=4", "SLURM_NTASKS_PER_NODE=2", "SLURM_EXPORT_ENV=NONE"}
	for system, want := range map[string][]string{
		"slurm": {"PATH=/bin", "SLURM_JOB_ID=7"},
		"sge":   around, // qrsh reads none of them
	} {
		if got := Named(system).Starter.Environ(around); !slices.Equal(got, want) {
			t.Errorf("%s has %q, want %q", system, got, want)
		}
	}
}

// RM-42: why a starter has ended, in its own words.
func TestLine(t *testing.T) {
	tried := make(map[string]bool)
	for _, test := range []struct{ system, said, want string }{
		{"slurm", "", ""},
		{"slurm", "srun: error: n2: task 0: Killed\n", "n2: task 0: Killed"},
		{"slurm", "srun: error: n2: task 0: Exited with exit code 125\n", "n2: task 0: Exited with exit code 125"},
		{"slurm", "srun: forcing job termination\nsrun: got SIGCONT\n", ""},
		{"slurm", "srun: error: n2: task 0: Killed\nsrun: Terminating StepId", "n2: task 0: Killed"},
		{"slurm", "slurmstepd-n2: error: *** STEP 1.7 ON n2 CANCELLED AT 2026-11-23T04:37:24 DUE TO TIME LIMIT ***\nsrun: error: n2: task 0: Killed\n", "STEP 1.7 ON n2 CANCELLED AT 2026-11-23T04:37:24 DUE TO TIME LIMIT"},
		{"slurm", "slurmstepd-n2: error: StepId=1.7 exceeded memory limit (5120 > 4096), being killed\nslurmstepd-n2: error: *** STEP 1.7 ON n2 CANCELLED AT 2026-11-23T04:37:24 ***\nsrun: error: n2: task 0: Killed\n",
			"StepId=1.7 exceeded memory limit (5120 > 4096), being killed"},
		{"slurm", "slurmstepd-n2: error: Detected 1 oom_kill event in StepId=1.7. Some of the step tasks have been OOM Killed.\nsrun: error: n2: task 0: Out Of Memory\n",
			"Detected 1 oom_kill event in StepId=1.7. Some of the step tasks have been OOM Killed."},
		{"slurm", "out of memory: the kernel has killed a process in the job's control group\nsrun: error: n2: task 0: Exited with exit code 137\n", "out of memory: the kernel has killed a process in the job's control group"},
		{"sge", "error: executing task of job 8 failed: failed sending task to execd@n9: can't resolve host name\n", "failed sending task to execd@n9: can't resolve host name"},
		{"sge", "error: commlib error: got read error\n", "commlib error: got read error"},
		{"sge", "\n", ""},
		{"lsf", "blaunch: n2: task 0 exited\n", "n2: task 0 exited"},
		{"pbs", "/opt/pbs/bin/pbs_tmrsh: host \"n9\" is not a node in job <12.server>\n", "host \"n9\" is not a node in job <12.server>"},
		{"pbs", "/tmp/nodes: No such file or directory\n", "/tmp/nodes: No such file or directory"},
		{"flux", "flux-exec: Error: rank 3: /bin/sh: No such file or directory\n", "rank 3: /bin/sh: No such file or directory"},
	} {
		tried[test.system] = true
		if got := Named(test.system).Starter.ErrorLine(test.said); got != test.want {
			t.Errorf("%s: the line of %q is %q, want %q", test.system, test.said, got, test.want)
		}
	}
	needCases(t, tried, hasStarter)
}

// Why a starter has ended before the helper spoke, and what is worth another try (RM-35).
func TestVerdict(t *testing.T) {
	for _, test := range []struct {
		system, said, why string
		busy              bool
	}{
		{"slurm", "srun: error: Unable to create step for job 1: Requested node configuration is not available", "Unable to create step for job 1: Requested node configuration is not available", false},
		{"slurm", "srun: cluster configuration lacks support for cpu binding\n", "the launcher ended with exit code 1 and printed no message", false},
		{"slurm", "srun: error: Unable to confirm allocation for job 1: Socket timed out on send/recv operation\n", "Unable to confirm allocation for job 1: Socket timed out on send/recv operation", true},
		{"sge", "error: executing task of job 8 failed: execution daemon on host \"n2\" didn't accept task\n", "Grid Engine has no slot for another task", true},
		{"sge", "error: executing task of job 8 failed: failed sending task to execd@n9: can't resolve host name\n", "failed sending task to execd@n9: can't resolve host name", false},
	} {
		got := Named(test.system).Starter.Diagnose(test.said, 1)
		if got.Why != test.why || got.Busy != test.busy || got.Remedy == "" {
			t.Errorf("%s said %q: %+v, want %q, busy %t and what to do", test.system, test.said, got, test.why, test.busy)
		}
	}
}

// How the job stands. What cannot be found out is not over.
func TestState(t *testing.T) {
	tried := make(map[string]bool)
	for _, test := range []struct {
		system, answer string
		failed         error
		want           State
	}{
		{"slurm", "RUNNING\n", nil, Runs},
		{"slurm", "SUSPENDED\n", nil, Suspended},
		{"slurm", "COMPLETING\n", nil, Over},
		{"slurm", "", nil, Unknown},
		{"slurm", "", errNothing, Unknown},
		{"sge", sgeJob("7", "r", ""), nil, Runs},
		{"sge", sgeJob("7", "S", ""), nil, Suspended},
		{"sge", sgeJob("7", "dr", ""), nil, Unknown},
		{"sge", sgeJob("7", "r", "2"), nil, Runs},
		{"sge", sgeJob("70", "r", ""), nil, Unknown},
		{"sge", "no qmaster", nil, Unknown},
		{"lsf", "RUN\n", nil, Runs},
		{"lsf", "SSUSP\n", nil, Suspended},
		{"lsf", "EXIT\n", nil, Over},
		{"lsf", "", errNothing, Unknown},
		{"sge", sgeJob("7", "r", ""), errNothing, Unknown},
	} {
		tried[test.system] = true
		run := func(string, ...string) (string, error) { return test.answer, test.failed }
		if got := Named(test.system).State(run, "7"); got != test.want {
			t.Errorf("%s answers %q, %v: %v, want %v", test.system, test.answer, test.failed, got, test.want)
		}
	}
	needCases(t, tried, func(s *System) bool { return s.State != nil })
}

// sgeJob is what qstat -xml prints of one job.
func sgeJob(number, state, task string) string {
	return "<?xml version='1.0'?>\n<job_info>\n<queue_info><job_list state=\"running\"><JB_job_number>" + number + "</JB_job_number><state>" + state +
		"</state><tasks>" + task + "</tasks></job_list></queue_info>\n<job_info></job_info></job_info>\n"
}

// A task of an array is a job of its own.
func TestStateInAnArray(t *testing.T) {
	run := func(string, ...string) (string, error) { return sgeJob("7", "r", "2"), nil }
	if state := Named("sge").State; state(run, "7.2") != Runs || state(run, "7.1") != Unknown {
		t.Error("one task of an array is taken for another")
	}
}

// How long Slurm waits before it kills; what is no such line, or no such number, is unknown.
func TestKillWait(t *testing.T) {
	for answer, want := range map[string]time.Duration{
		"JobAcctGatherType       = none\nKillWait                = 30 sec\nLaunchParameters        = (null)\n": 30 * time.Second,
		"KillWait                = 65535 sec\n": 65535 * time.Second,
		"KillWait                = 65536 sec\n": 0,
		"KillWait                = -1 sec\n":    0,
		"KillWait = 30\n":                       0,
		"NoKillWait = 30 sec\n":                 0,
		"":                                      0,
	} {
		run := func(string, ...string) (string, error) { return answer, nil }
		if got := Named("slurm").KillWait(run); got != want {
			t.Errorf("%q: %v, want %v", answer, got, want)
		}
	}
	if got := Named("slurm").KillWait(func(string, ...string) (string, error) { return "KillWait = 30 sec", errNothing }); got != 0 {
		t.Errorf("a program that fails: %v", got)
	}
}

type nothing string

func (n nothing) Error() string { return string(n) }

const errNothing = nothing("squeue: no such job")
