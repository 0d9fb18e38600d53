package launch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"remshell/job"
	"remshell/launch/checkpoint"
	"remshell/launch/control"
	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/launch/supervise"
)

// A slowCommand is a CheckpointRunner whose command ends when the test says how, or when its
// context ends.
type slowCommand struct {
	began chan string // receives each command line
	ends  chan string // why the command fails
}

func (c slowCommand) Run(ctx context.Context, command string, vars []string) string {
	c.began <- command + " " + strings.Join(vars, " ")
	select {
	case why := <-c.ends:
		return why
	case <-ctx.Done():
		return "killed"
	}
}

func (c slowCommand) Written(string, time.Time) bool { return false }

// asking returns a job of one rank that can write checkpoints on request.
func asking(t *testing.T) (f *Job, world slowCommand, said *[]string) {
	said = new([]string)
	world = slowCommand{make(chan string, 9), make(chan string)}
	f = &Job{events: node.NewInbox(), Env: Env{CheckpointRunner: world, Env: reserve.Env{Report: func(text string) { *said = append(*said, text) }}},
		Request: job.Request{Job: "j", Attempt: 2, Checkpoint: job.CheckpointPolicy{Command: "save", Dir: "/d", Grace: time.Hour}}}
	state := supervise.NewState(job.Plan{Size: 1, Nodes: []job.NodePlan{{Name: "n1", Ranks: []job.RankPlan{{}}}}}, supervise.Policy{}, time.Now())
	f.State = &state
	f.checkpoints = f.newCheckpointer()
	t.Cleanup(f.checkpoints.close)
	state.Step(supervise.RankStarted{Rank: 0}, time.Now())
	f.checkpoints.update(time.Now())
	return f, world, said
}

// hear handles the events in a job's inbox.
func hear(t *testing.T, f *Job) {
	t.Helper()
	events := f.events.Take(t.Context(), time.Time{})
	for _, event := range events {
		f.translate(event)
	}
}

// Each requester gets the outcome of the checkpoint. One command serves all requests made
// meanwhile. Then the job is stopped if a requester wants that (SV-15, SV-16).
func TestCheckpointRequests(t *testing.T) {
	for _, test := range []struct{ name, fails, answers, says string }{
		{"done", "", `["" ""]`, "[]"},
		{"failed", "failed with exit code 2", `["--ckpt-cmd failed with exit code 2" "--ckpt-cmd failed with exit code 2"]`, "[--ckpt-cmd failed with exit code 2]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, world, said := asking(t)
			var answers []string
			stopped := 0
			answer := func(why string) { answers = append(answers, why) }
			f.checkpoints.request(answer, nil)
			f.checkpoints.request(answer, func() { stopped++ })
			if got, want := <-world.began, "save MPIEXEC_JOBID=j MPIEXEC_CKPT_DIR=/d MPIEXEC_ATTEMPT=2"; got != want {
				t.Errorf("it is called as %q, want %q", got, want)
			}
			world.ends <- test.fails
			hear(t, f)
			if got := fmt.Sprintf("%q", answers); got != test.answers || stopped != 1 || fmt.Sprint(*said) != test.says || len(world.began) > 0 {
				t.Errorf("answers %s, stopped %d times, says %v, %d more commands", got, stopped, *said, len(world.began))
			}
		})
	}
}

// The end of the job ends the command, and all requesters get a reply.
func TestCheckpointRequestAtTheEnd(t *testing.T) {
	f, world, _ := asking(t)
	var answers []string
	f.checkpoints.request(func(why string) { answers = append(answers, why) }, func() { t.Error("a job that ends is stopped") })
	<-world.began
	f.State.Step(supervise.RankEnded{Exit: &job.Exit{Rank: 0, Code: 3}}, time.Now())
	f.checkpoints.update(time.Now())
	hear(t, f) // the command was killed
	f.checkpoints.request(func(why string) { answers = append(answers, why) }, nil)
	if want := []string{"the job ended before", "the job ends"}; !slices.Equal(answers, want) {
		t.Errorf("answers %q, want %q", answers, want)
	}
}

// A job is suspended only after the checkpoint in progress, whatever its outcome. It is suspended
// at once if there is none, or if its completion cannot be verified.
func TestASuspensionWaitsForTheCheckpoint(t *testing.T) {
	suspend := control.Request{Verb: job.VerbSuspend, User: "ann"}
	f, world, _ := asking(t)
	if f.waitsForCheckpoint(suspend) {
		t.Error("there is no checkpoint to wait for")
	}
	var order []string
	f.checkpoints.request(func(why string) { order = append(order, "answered "+why) }, nil)
	<-world.began
	if f.waitsForCheckpoint(control.Request{Verb: job.VerbEnd}) || f.waitsForCheckpoint(control.Request{Verb: job.VerbStatus}) {
		t.Error("an end, or a question, waits for a checkpoint")
	}
	if !f.waitsForCheckpoint(suspend) || f.State.IsSuspended() {
		t.Error("it does not wait for the checkpoint")
	}
	world.ends <- "failed"
	hear(t, f)
	for _, event := range f.events.Take(t.Context(), time.Time{}) {
		if r, is := event.(control.Request); is { // carried out as if it came now
			order = append(order, string(r.Verb))
		}
	}
	if want := []string{"answered --ckpt-cmd failed", "suspend"}; !slices.Equal(order, want) {
		t.Errorf("%q, want %q", order, want)
	}
	f.Request.Checkpoint = job.CheckpointPolicy{Signal: job.SIGUSR1, Grace: time.Hour}
	f.checkpoints.state = checkpoint.New(f.Request.Checkpoint)
	f.checkpoints.state.Step(checkpoint.CheckpointWanted{}, time.Now())
	if f.waitsForCheckpoint(suspend) {
		t.Error("it waits for what nobody can tell")
	}
}
