//go:build linux

package status_test

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

// After a timeout the user is told what each rank is doing.
func TestStatesAfterATimeout(t *testing.T) {
	launchtest.RecordJobs(t, "InspectRanks RankStates", func(s launchtest.Recording) {
		r := launchtest.NewRun(1, "exec sleep 600", "a")
		r.Req.TimeLimits.Run = 200 * time.Millisecond
		s.MustExit(r, job.ExitTimeout)
		if told := r.Err.String(); !strings.Contains(told, "mpiexec: what each rank is doing:\n") {
			s.Errorf("%s", told)
		}
	})
}

// A running job tells another mpiexec what each rank is doing.
func TestStatesForAnotherMpiexec(t *testing.T) {
	launchtest.RecordJobs(t, "ControlRequest ControlReply InspectRanks RankStates", func(s launchtest.Recording) {
		r := launchtest.NewRun(2, "echo up; exec sleep 600", "a", "b")
		up := s.Recorder.Log.Shows("Started")
		go func() {
			<-up
			r := s.Add(launchtest.NewRun(1, "true", "b"))
			ask := func(verb job.Verb) (asked reserve.ControlResult, err error) {
				for range 20 { // a slow machine may not reply within 10 s
					asked, err = reserve.Control(s.Context(), r.Req, r.Env().Env, job.JobRef{Job: job.NewestJob}, job.ControlRequest{Verb: verb})
					if !strings.HasPrefix(asked.Reply.Text, job.NoAnswerText) {
						break
					}
				}
				return asked, err
			}
			asked, err := ask(job.VerbStatus)
			if n := len(asked.Reply.Ranks); err != nil || n != 2 {
				s.Errorf("%d of 2 ranks are told, %+v, %v", n, asked, err)
			}
			if asked, err := ask(job.VerbEnd); err != nil || asked.Reply.State != job.ReplyDone {
				s.Errorf("%+v, %v", asked, err)
			}
		}()
		s.MustExit(r, 143)
	})
}
