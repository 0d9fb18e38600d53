//go:build linux

package stacks_test

import (
	"strings"
	"testing"
	"time"

	_ "remshell/feature" // another one receives the requests of other users
	"remshell/job"
	"remshell/launch/launchtest"
	"remshell/launch/reserve"
)

func TestMain(m *testing.M) { launchtest.Main(m) }

// After a timeout the user sees the stacks of all ranks, if these were requested.
func TestStacksAfterATimeout(t *testing.T) {
	launchtest.RecordJobs(t, "GatherStacks StackGroups", func(s launchtest.Recording) {
		r := launchtest.NewRun(2, "exec sleep 600", "a", "b")
		r.Req.TimeLimits.Run, r.Req.EndPolicy.StacksOnTimeout = 500*time.Millisecond, true
		s.MustExit(r, job.ExitTimeout)
		if told := r.Err.String(); !strings.Contains(told, "mpiexec: stacks of 2 ranks:\n") || !strings.Contains(told, "nanosleep") {
			s.Errorf("%s", told)
		}
	})
}

// A running job shows another mpiexec of its user the stacks of its ranks. Ranks that it does not have are an error.
func TestStacksForAnotherMpiexec(t *testing.T) {
	launchtest.RecordJobs(t, "ControlRequest ControlReply GatherStacks StackGroups", func(s launchtest.Recording) {
		r := launchtest.NewRun(2, "echo up; exec sleep 600", "a", "b")
		up := s.Recorder.Log.Shows("Started")
		go func() {
			<-up
			r := s.Add(launchtest.NewRun(1, "true", "b"))
			ask := func(args ...string) (asked reserve.ControlResult) {
				for range 20 { // a slow machine may not reply within 10 s
					var err error
					if _, asked, err = reserve.Stacks(s.Context(), r.Req, r.Env().Env, job.JobRef{Job: job.NewestJob}, args); err != nil {
						s.Errorf("%v", err)
					}
					if !strings.HasPrefix(asked.Reply.Text, job.NoAnswerText) {
						break
					}
				}
				return asked
			}
			ranks := func(asked reserve.ControlResult) (n int) {
				if asked.Reply.Stacks != nil {
					for _, g := range asked.Reply.Stacks.Groups {
						n += len(g.Ranks)
					}
				}
				return n
			}
			if asked := ask(); ranks(asked) != 2 || asked.Reply.State != job.ReplyDone {
				s.Errorf("all: %+v", asked.Reply)
			}
			if asked := ask("ranks=1"); ranks(asked) != 1 {
				s.Errorf("rank 1: %+v", asked.Reply)
			}
			if asked := ask("ranks=2"); asked.Reply.State != job.ReplyRefused || !strings.Contains(asked.Reply.Text, "ranks 0-1") {
				s.Errorf("rank 2: %+v", asked.Reply)
			}
			if asked, err := reserve.Control(s.Context(), r.Req, r.Env().Env, job.JobRef{Job: job.NewestJob}, job.ControlRequest{Verb: job.VerbEnd}); err != nil || asked.Reply.State != job.ReplyDone {
				s.Errorf("%+v, %v", asked, err)
			}
		}()
		s.MustExit(r, 143)
	})
}
