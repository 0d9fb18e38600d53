package supervise

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"remshell/job"
)

// Whatever a node reports about the end of a rank, a failure has an exit code from 1 to 255
// (TRUST-33), and the report shows it.
func TestAFailureHasACode(t *testing.T) {
	for _, code := range []int{-256, -1, 256, 1 << 32, 1<<32 + 7} {
		for what, news := range map[string]any{
			"Exited": exits(1, code), "a signal": dies(1, code), "MPI_Abort": aborts(1, code, ""),
			"not started": RankStartFailed{1, code, "no", ""},
		} {
			for _, status := range []string{"", "max", "or", "rank0"} {
				state := NewState(twoNodes, Policy{EndPolicy: job.EndPolicy{StatusRule: status, ErrorCode: 77}}, time.Unix(0, 0))
				state.Step(news, time.Unix(0, 0))
				if got := state.ExitCode(); got < 1 || got > 255 {
					t.Errorf("%s with %d, --exit-status %q: %d", what, code, status, got)
				} else if report := state.Report(func(int) RankProfile { return RankProfile{} }, Sequel{}); !strings.HasSuffix(report, fmt.Sprintf("\n  exit code %d", got)) {
					t.Errorf("%s with %d: exit code %d, and the report says %q", what, code, got, report)
				}
			}
		}
	}
}

// MPI_Abort with code 0 is a success only if all other ranks had ended.
func TestAnAbortWithZero(t *testing.T) {
	var besides []any
	for rank := range twoNodes.Size - 1 {
		besides = append(besides, exits(rank, 0))
	}
	last := twoNodes.Size - 1
	for what, test := range map[string]struct {
		events []any
		rules  job.EndPolicy
		want   int
	}{
		"beside running ranks":         {[]any{aborts(last, 0, "")}, job.EndPolicy{}, 1},
		"the same, the rank ends too":  {[]any{aborts(last, 0, ""), exits(last, 0)}, job.EndPolicy{StatusRule: "max"}, 1},
		"by rank 0, whose code counts": {[]any{aborts(0, 0, ""), exits(0, 0)}, job.EndPolicy{StatusRule: "rank0"}, 1},
		"one other runs":               {append(besides[1:len(besides):len(besides)], aborts(last, 0, "")), job.EndPolicy{}, 1},
		"when all others are over":     {append(besides[:len(besides):len(besides)], aborts(last, 0, "")), job.EndPolicy{}, 0},
		"when it is over itself":       {append(besides[1:len(besides):len(besides)], exits(last, 0), aborts(last, 0, "")), job.EndPolicy{}, 1},
	} {
		state := NewState(twoNodes, Policy{EndPolicy: test.rules}, time.Unix(0, 0))
		for _, event := range test.events {
			state.Step(event, time.Unix(0, 0))
		}
		if got := state.ExitCode(); got != test.want {
			t.Errorf("%s: exit code %d, want %d", what, got, test.want)
		}
	}
}

// MPIEXEC_ERROR_CODE replaces the code of internal failures and never a rank's.
func TestOurOwnCode(t *testing.T) {
	for what, test := range map[string]struct {
		event any
		want  int
	}{
		"a node is lost":               {NodeLost{1, "reset"}, 77},
		"a disk is full":               {diskFull, 77},
		"input cannot be read":         {badInput, 77},
		"no descriptor is left":        {RankStartFailed{1, job.ExitInternal, "too many open files", ""}, 77},
		"a rank exits with 125":        {exits(1, job.ExitInternal), job.ExitInternal},
		"a rank aborts with 125":       {aborts(1, job.ExitInternal, ""), job.ExitInternal},
		"a program cannot be found":    {RankStartFailed{1, 127, "no such file", ""}, 127},
		"nobody reads our output":      {nobodyReads, job.ExitNoStdout},
		"an impossible code of a rank": {exits(1, 1000), 77},
	} {
		state := NewState(twoNodes, Policy{EndPolicy: job.EndPolicy{ErrorCode: 77}}, time.Unix(0, 0))
		state.Step(test.event, time.Unix(0, 0))
		if got := state.ExitCode(); got != test.want {
			t.Errorf("%s: exit code %d, want %d", what, got, test.want)
		}
	}
}

// A lost node is an internal failure, even if ranks elsewhere have aborted because of it.
func TestALostNodeAfterAnAbortIsOurs(t *testing.T) {
	state := NewState(twoNodes, Policy{EndPolicy: job.EndPolicy{ErrorCode: 77}}, time.Unix(0, 0))
	for _, event := range []any{aborts(0, 101, ""), NodeLost{1, "reset"}} {
		state.Step(event, time.Unix(0, 0))
	}
	if got := state.ExitCode(); state.Cause.Kind != NodeConnectionLost || got != 77 {
		t.Errorf("cause %+v, exit code %d", state.Cause, got)
	}
}

// A rank 0 whose end was not reported did not end with 0.
func TestTheCodeOfALostRank0(t *testing.T) {
	state := NewState(twoNodes, Policy{EndPolicy: job.EndPolicy{StatusRule: "rank0"}}, time.Unix(0, 0))
	for _, event := range []any{exits(twoNodes.Size-1, 3), NodeLost{0, "reset"}} {
		state.Step(event, time.Unix(0, 0))
	}
	if got := state.ExitCode(); got == 0 {
		t.Error("exit code 0")
	}
}
