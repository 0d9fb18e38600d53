package hang

import (
	"strings"
	"testing"
	"time"

	"remshell/cli/option"
	"remshell/feature/hang/machine"
	"remshell/job"
	"remshell/launch"
	"remshell/launch/node/nodetest"
	"remshell/mpifault"
	"remshell/wire/wiretest"
)

// Unchanged comes while ranks run.
func TestStages(t *testing.T) {
	nodetest.CheckStages(t, nodetest.StageVerdicts{Kind: "Unchanged",
		//       connected greeted asked prepared running ending over left
		Stages: "early     early   early early    ok      ok     ok   dropped", Foreign: "foreign"})
}

// The frame of the message does not change.
func TestFrame(t *testing.T) {
	wiretest.CheckBytes(t, &Unchanged{Report: machine.Report{For: time.Nanosecond, PMI: true, Awake: []int{3}}}, "8206020200020600")
}

// A job is watched if people see what is reported, or if the user has asked for it.
func TestWatchingFor(t *testing.T) {
	for _, test := range []struct {
		args string
		seen bool
		want string
	}{
		{"a", false, "no"},
		{"a", true, "1m0s"},
		{"--hang a", false, "1m0s plain"},
		{"--hang=90 a", false, "1m30s plain"},
		{"--hang=0 a", true, "no"},
		{"--hang=0 --hang-action end a", true, "no"},
		{"--hang-action end a", false, "1m0s ends"},
		{"--hang-action report a", false, "1m0s"},
		{"--hang=1h --hang-action end a", false, "1h0m0s plain ends"},
	} {
		line, err := option.Mpiexec(func(string) int { return 1 }).Parse(strings.Fields(test.args), option.Sources{})
		if err != nil {
			t.Fatal(err)
		}
		got := "no"
		if w := watchingFor(option.ValuesOf[Options](line), test.seen); w != nil {
			got = w.After.String()
			if w.Plain {
				got += " plain"
			}
			if w.Ends {
				got += " ends"
			}
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.args, got, test.want)
		}
	}
	for value, want := range map[string]bool{"CI=true": true, "CI=1": true, "CI=": false, "CI=false": false, "CIRCLE=1": false} {
		if isCI([]string{"A=b", value}) != want {
			t.Errorf("%s: want %v", value, want)
		}
	}
}

// A time shorter than a second is refused: stacks would be read all the time.
func TestShortTimes(t *testing.T) {
	for value, wrong := range map[string]string{"0": "", "0.0": "", "1": "", "1.5": "", "0.999": `"0.999" is too short; write 0, or at least 1 second`, "10ms": `"10ms" is too short`, "x": `"x" is not a time`} {
		_, err := option.Mpiexec(func(string) int { return 1 }).Parse([]string{"--hang=" + value, "a"}, option.Sources{})
		if (err == nil) != (wrong == "") || err != nil && !strings.Contains(err.Error(), wrong) {
			t.Errorf("--hang=%s: %v, want %q", value, err, wrong)
		}
	}
}

// If all ranks are in MPI_Finalize on several nodes, a fault of their library is named with what to do.
func TestFinalizeFault(t *testing.T) {
	for _, test := range []struct {
		calls []string
		nodes int
		fault string
		want  string
	}{
		{[]string{"MPI_Finalize", "MPI_Finalize"}, 2, mpifault.Finalize, "  known fault: the program is linked with MPICH 4.0 with UCX (Debian 12)"},
		{[]string{"MPI_Finalize", "MPI_Finalize"}, 1, mpifault.Finalize, ""},
		{[]string{"MPI_Finalize", "MPI_Finalize"}, 2, "", ""},
		{[]string{"MPI_Finalize", "MPI_Send"}, 2, mpifault.Finalize, ""},
		{[]string{"MPI_Finalize", ""}, 2, mpifault.Finalize, ""},
		{nil, 2, mpifault.Finalize, ""},
	} {
		s := launch.StackSummary{Calls: test.calls}
		for i := range test.calls {
			s.Report.Groups = append(s.Report.Groups, job.StackGroup{Ranks: []int{i}, State: job.StackRuns})
		}
		got := advice(finalizeFault(s, test.nodes, test.fault))
		if !strings.HasPrefix(got, test.want) || (got == "") != (test.want == "") || got != "" && !strings.Contains(got, "\n  build the program with another MPI library") {
			t.Errorf("%+v: %q", test, got)
		}
	}
}

// The first line counts the ranks in the most frequent call.
func TestHeadline(t *testing.T) {
	group := func(state job.StackState, ranks ...int) job.StackGroup {
		return job.StackGroup{Ranks: ranks, State: state}
	}
	for _, test := range []struct {
		quiet  time.Duration
		groups []job.StackGroup
		calls  []string
		want   string
	}{
		{time.Minute, []job.StackGroup{group("runs", 0, 1, 2), group("runs", 3), group("blocked", 4)}, []string{"MPI_Send", "MPI_Recv", ""}, "no progress for 60 s: 3 of 5 ranks wait in MPI_Send"},
		{2 * time.Minute, []job.StackGroup{group("runs", 0, 1), group("runs", 3)}, []string{"MPI_Send", "MPI_Send"}, "no progress for 120 s: all 3 ranks wait in MPI_Send"},
		{16 * time.Minute, []job.StackGroup{group("stopped", 0, 1), group("runs", 3)}, []string{"MPI_Send", "MPI_Send"}, "no progress for 16 min: 1 of 3 ranks waits in MPI_Send"},
		{time.Minute, []job.StackGroup{group("runs", 0, 1), group("sleeps", 2)}, []string{"MPI_Send", ""}, "no progress for 60 s: 2 of 3 ranks wait in MPI_Send"},
		{time.Minute, []job.StackGroup{group("sleeps", 0, 1)}, []string{""}, "no progress for 60 s: all 2 ranks wait outside of MPI"},
		{time.Minute, []job.StackGroup{group("sleeps", 0, 1), group("ended", 2), group("stopped", 3)}, []string{"", "", ""}, "no progress for 60 s: 2 of 4 ranks wait outside of MPI"},
		{time.Minute, []job.StackGroup{group("sleeps", 0), group("ended", 1)}, []string{"MPI_Recv", "MPI_Finalize"}, "no progress for 60 s: 1 of 2 ranks waits in MPI_Recv"},
		{time.Minute, []job.StackGroup{group("stopped", 0), group("ended", 1)}, []string{"", ""}, "no progress for 60 s: all ranks are stopped or have ended"},
		{time.Minute, []job.StackGroup{group("sleeps", 0)}, []string{""}, "no progress for 60 s: the rank waits outside of MPI"},
		{time.Minute, []job.StackGroup{group("sleeps", 0)}, []string{"MPI_Recv"}, "no progress for 60 s: the rank waits in MPI_Recv"},
	} {
		if got := headline(test.quiet, launch.StackSummary{Report: job.StackReport{Groups: test.groups}, Calls: test.calls}); got != test.want {
			t.Errorf("%s, want %s", got, test.want)
		}
	}
}
