package cli

import (
	"testing"

	"remshell/job"
	"remshell/launch/reserve"
)

// What is advised after a job has refused something fits what it was asked for: who has asked too early to suspend a job, or
// for a checkpoint, was told to resume it.
func TestAdviceAfterARefusalFitsTheRequest(t *testing.T) {
	refused := func(text string) reserve.Asked {
		return reserve.Asked{Node: "n1", Answer: job.Answer{State: job.AskRefused, Text: text}}
	}
	for _, test := range []struct {
		verb  job.Verb
		asked reserve.Asked
		want  string
	}{
		{job.AskMigrate, refused("its ranks do not all run yet"), "ask again in a moment"},
		{job.AskCheckpoint, refused("suspended: its ranks cannot write a checkpoint"), "mpiexec --resume-job j@ann lets it go on"},
		{job.AskSuspend, refused("no answer from job j for 10s"), "it is being started, or its mpiexec is stopped or hangs; ask again later, or end its ranks there: mpiexec --signal KILL j@ann n1"},
		{job.AskEnd, refused("its mpiexec is stopped (^Z, or a batch system)"), "fg in its shell lets it go on; or end its ranks there: mpiexec --signal KILL j@ann n1"},
		{job.AskSuspend, refused("not allowed: job j is of ann"), "root and the administrators of n1 may"},
		{job.AskEnd, reserve.Asked{Node: "n1", Keeps: true, Answer: job.Answer{Text: "job j says that it has ended, but it still has CPUs there"}}, "as root, or as its user: mpiexec --evict j@ann n1"},
		{job.AskSuspend, refused("already suspended"), ""},
	} {
		if got := remedyOf(test.verb, test.asked, job.Ref{Job: "j", User: "ann"}); got != test.want {
			t.Errorf("%s, %q: %q; want %q", test.verb, test.asked.Answer.Text, got, test.want)
		}
	}
}
