package cli

import (
	"strings"
	"testing"

	"remshell/cli/option"
	"remshell/job"
	"remshell/launch/reserve"
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
		asked reserve.ControlResult
		want  string
	}{
		{refused("not all ranks of the job are running yet"), "run the command again in a few seconds"},
		{refused("the job is suspended, so its ranks cannot write a checkpoint"), "mpiexec --resume-job j@ann continues the job"},
		{refused("the job did not reply within 10s"), "try again later; if the mpiexec of the job is stopped or hangs, kill the ranks on this host: mpiexec --signal KILL j@ann n1"},
		{refused("the mpiexec of the job is stopped (by ^Z or by a batch system)"), "continue mpiexec with fg in its shell, or kill the ranks on this host: mpiexec --signal KILL j@ann n1"},
		{refused("you may not do this, because job j belongs to user ann"), "only root and the administrators of n1 may do this"},
		{reserve.ControlResult{Node: "n1", StillHasClaim: true, Reply: job.ControlReply{Text: "job j reported that it has ended, but the job still uses CPUs on this host"}}, "as root, or as the user of the job, run: mpiexec --evict j@ann n1"},
		{refused("already suspended"), ""},
		{refused("the job cannot be moved: it was started without --restart"), "start the job with --it"},
	} {
		if got := controlRequestRemedy(ofMpiexec, "start the job with --it", test.asked, job.JobRef{Job: "j", User: "ann"}); got != test.want {
			t.Errorf("%q: %q; want %q", test.asked.Reply.Text, got, test.want)
		}
		want := strings.NewReplacer("mpiexec --resume-job", "mpijob resume", "mpiexec --", "mpijob ").Replace(test.want)
		if got := controlRequestRemedy(ofMpijob, "start the job with --it", test.asked, job.JobRef{Job: "j", User: "ann"}); got != want {
			t.Errorf("mpijob: %q: %q; want %q", test.asked.Reply.Text, got, want)
		}
	}
}
