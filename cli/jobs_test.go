package cli

import (
	"strings"
	"testing"

	"remshell/cli/option"
	"remshell/job"
	"remshell/launch/reserve"
	"remshell/launch/restart"
)

// The remedy after a refused request depends on the request, the reason, and the front end.
func TestAdviceAfterARefusalFitsTheRequest(t *testing.T) {
	table := option.Mpiexec(signalNumber)
	ofMpijob, args, err := option.Mpijob(table).Parse([]string{"ps"}, option.Sources{})
	if err != nil {
		t.Fatal(err)
	}
	ofMpiexec, err := table.Parse(args, option.Sources{})
	if err != nil {
		t.Fatal(err)
	}
	refused := func(text string) reserve.ControlResult {
		return reserve.ControlResult{Node: "n1", Reply: job.ControlReply{State: job.ReplyRefused, Text: text}}
	}
	for _, test := range []struct {
		verb  job.Verb
		asked reserve.ControlResult
		want  string
	}{
		{job.VerbMigrate, refused("its ranks do not all run yet"), "try again in a moment"},
		{job.VerbCheckpoint, refused("suspended: its ranks cannot write a checkpoint"), "mpiexec --resume-job j@ann lets it go on"},
		{job.VerbSuspend, refused("no answer from job j for 10s"), "the job is starting, or its mpiexec is stopped or hangs; try again later, or kill its ranks there: mpiexec --signal KILL j@ann n1"},
		{job.VerbEnd, refused("its mpiexec is stopped (^Z, or a batch system)"), "continue it with fg in its shell, or kill its ranks there: mpiexec --signal KILL j@ann n1"},
		{job.VerbSuspend, refused("not allowed: job j is of ann"), "only root and the administrators of n1 may do this"},
		{job.VerbEnd, reserve.ControlResult{Node: "n1", StillHasClaim: true, Reply: job.ControlReply{Text: "job j says that it has ended, but it still has CPUs there"}}, "as root, or as its user: mpiexec --evict j@ann n1"},
		{job.VerbSuspend, refused("already suspended"), ""},
		{job.VerbMigrate, refused(restart.WhyUnmovable(job.Request{})), "start the job with --restart N, and with --ckpt-signal SIG or --ckpt-cmd CMD"},
		{job.VerbCheckpoint, refused("cannot checkpoint: " + job.StartedWithoutText + "--ckpt-signal and --ckpt-cmd"), "start the job with --ckpt-signal SIG or --ckpt-cmd CMD"},
	} {
		if got := controlRequestRemedy(ofMpiexec, test.verb, test.asked, job.JobRef{Job: "j", User: "ann"}); got != test.want {
			t.Errorf("%s, %q: %q; want %q", test.verb, test.asked.Reply.Text, got, test.want)
		}
		want := strings.NewReplacer("mpiexec --resume-job", "mpijob resume", "mpiexec --", "mpijob ").Replace(test.want)
		if got := controlRequestRemedy(ofMpijob, test.verb, test.asked, job.JobRef{Job: "j", User: "ann"}); got != want {
			t.Errorf("mpijob: %s, %q: %q; want %q", test.verb, test.asked.Reply.Text, got, want)
		}
	}
}
