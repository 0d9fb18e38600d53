package supervise

import (
	"strings"
	"testing"
	"time"

	"remshell/job"
	"remshell/mpifault"
)

var solver = RankProfile{Program: "./solver -i case7", PID: 40213, BoundCPUs: "package 1 core 8-11",
	LastStderrLine: "ERROR: negative volume in cell 41"}

// ran sets the wall time of an exit to about three minutes.
func ran(e RankEnded) RankEnded {
	e.Usage.Wall = 192 * time.Second
	return e
}

// Each row is a report as the user reads it (REP-1 to REP-6).
var reports = []struct {
	name   string
	rules  Policy
	events []any
	about  RankProfile
	want   string
}{
	{"all well", Policy{}, sequence(well, drained), RankProfile{}, ""},
	{"^C", Policy{}, sequence(sig(2), dies(0, 2), dies(1, 2), dies(2, 2), dies(3, 2), drained), RankProfile{}, ""},
	{"a crash", Policy{}, sequence(ran(RankEnded{&job.Exit{Rank: 2, Signal: 11, Core: true}}), after(time.Second), asked(0, 15), asked(1, 15), asked(3, 9), drained), solver, `
rank 2 on b died: Segmentation fault (signal 11), core dumped
  program   ./solver -i case7   pid 40213   ran 00:03:12
  bound to  package 1 core 8-11   last stderr "ERROR: negative volume in cell 41"
  then      mpiexec ended 3 other ranks on 2 nodes: 1 with SIGKILL, 2 with SIGTERM
  exit code 139`},
	{"not bound, silent", Policy{}, sequence(ran(exits(1, 3)), after(time.Second), RankEnded{&job.Exit{Rank: 0, ToldToEnd: true}}, asked(2, 15), asked(3, 15), drained),
		RankProfile{Program: "./a.out", PID: 7}, `
rank 1 on a exited with code 3
  program   ./a.out   pid 7   ran 00:03:12
  bound to  no CPUs
  then      mpiexec ended 3 other ranks on 2 nodes: 2 with SIGTERM, 1 exited at the request of mpiexec
  exit code 3`},
	{"terminal codes", Policy{}, sequence(aborts(2, 3, "\x1b[2J\nmpiexec: all is well\u202e")), RankProfile{Program: "./a\nb", PID: 7, LastStderrLine: "\x1b]0;me\a", Hint: "\x9b"}, `
rank 2 on b called MPI_Abort with code 3: \x1b[2J mpiexec: all is well\u202e
  program   ./a b   pid 7
  bound to  no CPUs   last stderr "\x1b]0;me\a"
  hint      \x9b
  exit code 3`},
	{"several within a moment", Policy{}, sequence(exits(1, 3), dies(0, 11), after(50*time.Millisecond), exits(2, 4), exits(3, 4), drained), RankProfile{}, `
rank 1 on a exited with code 3
  also      rank 0 died: Segmentation fault (signal 11); ranks 2-3 exited with code 4
  exit code 3`},
	{"one long after it", Policy{EndPolicy: job.EndPolicy{KeepOnExit: true}}, sequence(exits(1, 3), after(time.Second), exits(0, 4), exits(2, 0), exits(3, 0), drained), RankProfile{}, `
rank 1 on a exited with code 3
  exit code 3`},
	{"evidence", Policy{}, sequence(dies(0, 9)), RankProfile{Hint: "out of memory: the kernel has killed a process in the job's control group"}, `
rank 0 on a died: Killed (signal 9)
  hint      out of memory: the kernel has killed a process in the job's control group
  exit code 137`},
	{"exec failed", Policy{}, sequence(RankStartFailed{3, 126, "program ./x: permission denied", "chmod +x ./x"}), RankProfile{Program: "./x"}, `
rank 3 on b: program ./x: permission denied
  hint      chmod +x ./x
  exit code 126`},
	{"a lost node", Policy{}, sequence(after(729*time.Second), NodeLost{1, "ssh: Connection reset by peer"}, asked(0, 15), asked(1, 15), NodeDrained{Node: 0}), RankProfile{}, `
lost contact with b (ssh: Connection reset by peer) after 00:12:09, where ranks 2-3 ran
  then      mpiexec ended 2 other ranks on 1 node with SIGTERM
  exit code 125`},
	{"nobody's fault", Policy{Timeout: time.Minute}, sequence(after(time.Minute), Tick{}, asked(0, 15), asked(1, 15), asked(2, 15), asked(3, 9)), RankProfile{}, `
the job ran longer than -timeout 1m0s
  then      mpiexec ended 4 ranks on 2 nodes: 1 with SIGKILL, 3 with SIGTERM
  exit code 124`},
	{"a step that the batch system has killed", Policy{BatchJob: slurmJob}, sequence(dies(2, 9), dies(0, 9), NodeLost{1, "srun: STEP 4711.0 ON a CANCELLED"}, NodeLost{0, "srun: STEP 4711.0 ON a CANCELLED"}), RankProfile{}, `
lost contact with b (srun: STEP 4711.0 ON a CANCELLED) after 00:00:00, where ranks 2-3 ran
  also      rank 0 died: Killed (signal 9)
  exit code 125`},
	{"a long story", Policy{}, sequence(aborts(0, 1, strings.Repeat("line\n", 40)), exits(0, 1)), RankProfile{Program: "x", PID: 1, BoundCPUs: "core 1", Hint: "h"},
		"\nrank 0 on a called MPI_Abort with code 1: " + strings.TrimRight(strings.Repeat("line ", 40), " ") +
			"\n  program   x   pid 1   ran 00:00:00\n  bound to  core 1\n  hint      h\n  exit code 1"},
}

func TestReport(t *testing.T) {
	for _, test := range reports {
		state := play(test.rules, test.events)
		got := state.Report(func(int) RankProfile { return test.about }, Sequel{})
		if got != strings.TrimPrefix(test.want, "\n") {
			t.Errorf("%s:\n%s\nwant:%s", test.name, got, test.want)
		}
		if lines := strings.Count(got, "\n") + 1; lines > 12 { // REP-1
			t.Errorf("%s: %d lines", test.name, lines)
		}
	}
}

// play passes events to the state of a job on two nodes.
func play(rules Policy, events []any) State {
	now := time.Unix(1_000_000, 0)
	rules.Grace = 10 * time.Second
	state := NewState(twoNodes, rules, now)
	for _, event := range events {
		if pause, ok := event.(after); ok {
			now = now.Add(time.Duration(pause))
			continue
		}
		state.Step(event, now)
	}
	return state
}

func TestExitCodes(t *testing.T) {
	state := play(Policy{EndPolicy: job.EndPolicy{KeepAll: true}}, sequence(exits(1, 3), dies(0, 9), exits(2, 3), NodeLost{1, ""}))
	if got, want := strings.Join(state.ExitCodes(), "\n"), "exit code 3: ranks 1-2\nexit code 137: rank 0\nranks without an exit code: rank 3"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// REP-5: there is no note if any rank has connected to our PMI server.
func TestAProgramBuiltForAnotherLauncher(t *testing.T) {
	alone := func(o job.PMIOffer) RankEnded {
		return RankEnded{&job.Exit{Rank: 0, MPILibrary: "libmpi.so.40", PMIOffer: o}}
	}
	const note = "note: no rank connected to mpiexec by PMI, although ./a.out uses libmpi.so.40; mpiexec offered "
	for _, test := range []struct {
		name   string
		events []any
		want   string
	}{
		{"PMI-1", sequence(alone(job.PMIOfferPMI1), well[1:]), note + "PMI-1; try --pmi both"},
		{"PMI-2", sequence(alone(job.PMIOfferPMI2), well[1:]), note + "PMI-2; try --pmi both"},
		{"PMIx", sequence(alone(job.PMIOfferPMIx), well[1:]), note + "PMIx; try --pmi both"},
		{"both", sequence(alone(job.PMIOfferBoth), well[1:]), note + "PMI-1 and PMIx"},
		{"nothing", sequence(alone(job.PMIOfferNone), well[1:]), note + "nothing; try --pmi auto"},
		{"one connected", sequence(alone(job.PMIOfferPMI1), well[1:3], RankEnded{&job.Exit{Rank: 3, PMI: job.PMIFinalized}}), ""},
		{"no MPI program", well, ""},
		{"its library is missing", sequence(RankEnded{&job.Exit{Rank: 0, Code: 127, MPILibrary: "libmpi.so.40", PMIOffer: job.PMIOfferPMI1}}, well[1:]), ""},
	} {
		state := play(Policy{}, test.events)
		if got := NotOurMPI(state.Exits, twoNodes.Size, "./a.out"); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// A note is reported if ranks waited in MPI_Finalize and their library is known to hang there.
// There is none if ranks had not reached MPI_Finalize, run on one host, or use another library.
func TestRanksThatWaitedInFinalize(t *testing.T) {
	waited := func(rank, barrier int, fault string) RankEnded {
		return RankEnded{&job.Exit{Rank: rank, Signal: 15, ToldToEnd: true, PMI: job.PMIOpen, FinalizeBarrier: barrier, LibraryFault: fault}}
	}
	const note = "note: rank 0 waited in MPI_Finalize until mpiexec ended the job. The program is linked with MPICH 4.0 with UCX (Debian 12); with this library, if ranks are on several hosts, MPI_Finalize sometimes hangs, because one rank waits for another one that has already finished"
	apart := job.Plan{Job: "j", Size: 2, Nodes: []job.NodePlan{{Name: "a", Ranks: []job.RankPlan{{Rank: 0}}}, {Name: "b", Ranks: []job.RankPlan{{Rank: 1}}}}}
	together := job.Plan{Job: "j", Size: 2, Nodes: []job.NodePlan{{Name: "a", Ranks: []job.RankPlan{{Rank: 0}, {Rank: 1}}}}}
	for _, test := range []struct {
		name string
		plan job.Plan
		ends []any
		want string
	}{
		{"one rank on each host", apart, []any{waited(0, 3, mpifault.Finalize), waited(1, 0, "")}, note},
		{"in MPI_Init", apart, []any{waited(0, 2, mpifault.Finalize), waited(1, 0, "")}, ""},
		{"two ranks on each host", twoNodes, []any{waited(0, 4, mpifault.Finalize), asked(1, 15), asked(2, 15), asked(3, 15)}, note},
		{"the same, in MPI_Init", twoNodes, []any{waited(0, 3, mpifault.Finalize), asked(1, 15), asked(2, 15), asked(3, 15)}, ""},
		{"one host", together, []any{waited(0, 4, mpifault.Finalize), waited(1, 0, "")}, ""},
		{"another library", apart, []any{waited(0, 3, ""), waited(1, 0, "")}, ""},
		{"a fault that nobody knows", apart, []any{waited(0, 3, "x"), waited(1, 0, "")}, ""},
	} {
		state := NewState(test.plan, Policy{}, time.Unix(1, 0))
		for _, event := range test.ends {
			state.Step(event, time.Unix(2, 0))
		}
		if got := StuckInFinalize(state.Exits, state.Nodes()); !strings.HasPrefix(got, test.want) || (got == "") != (test.want == "") {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// RM-61: the batch system is asked if it ended its job only if the cause may come from that.
func TestAskRM(t *testing.T) {
	for name, test := range map[string]struct {
		rm     BatchJob
		events []any
		want   bool
	}{
		"a lost node":                     {slurmJob, []any{NodeLost{1, "reset"}}, true},
		"a killed rank":                   {slurmJob, []any{dies(2, 9)}, true},
		"a node that was told to end":     {slurmJob, []any{HelperSignaled{1, job.SIGTERM, ""}}, true},
		"the same, and it is known":       {slurmJob, []any{HelperSignaled{1, job.SIGTERM, ""}, HelperSignaled{0, job.SIGTERM, ""}}, false},
		"a crash":                         {slurmJob, []any{dies(2, 11)}, false},
		"an exit":                         {slurmJob, []any{exits(2, 3)}, false},
		"all well":                        {slurmJob, sequence(well, drained), false},
		"a killed rank and nobody to ask": {BatchJob{}, []any{dies(2, 9)}, false},
	} {
		state := play(Policy{BatchJob: test.rm}, test.events)
		if got := state.ShouldAskBatch(); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
