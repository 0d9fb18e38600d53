package checkpoint

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"remshell/job"
	"remshell/launch"
	"remshell/launch/reserve"
	"remshell/launch/supervise"
)

// A slowCommand is a runner whose command ends when the test says how, or when its
// context ends.
type slowCommand struct {
	began chan string // receives each command line
	ends  chan string // why the command fails
}

func (c slowCommand) run(ctx context.Context, command string, vars []string) string {
	c.began <- command + " " + strings.Join(vars, " ")
	select {
	case why := <-c.ends:
		return why
	case <-ctx.Done():
		return "killed"
	}
}

func (c slowCommand) isWritten(string, time.Time) bool { return false }

// asking returns the checkpointer of a job of one rank that can write checkpoints on request, and the functions that it
// has posted.
func asking(t *testing.T) (c *checkpointer, world slowCommand, said *[]string, posted chan func()) {
	said, posted = new([]string), make(chan func(), 9)
	world = slowCommand{make(chan string, 9), make(chan string)}
	state := supervise.NewState(job.Plan{Size: 1, Nodes: []job.NodePlan{{Name: "n1", Ranks: []job.RankPlan{{}}}}}, supervise.Policy{}, time.Now())
	c = newCheckpointer(&launch.Job{Env: launch.Env{Env: reserve.Env{Report: func(text string) { *said = append(*said, text) }}}, State: &state,
		Request: job.Request{Job: "j", Attempt: 2, Checkpoint: job.CheckpointPolicy{Command: "save", Dir: "/d", Grace: time.Hour}}})
	c.runner = world
	c.post = func(do func()) { posted <- do }
	t.Cleanup(c.stopCommand)
	state.Step(supervise.RankStarted{Rank: 0}, time.Now())
	c.update(time.Now())
	return c, world, said, posted
}

// Each requester gets the outcome of the checkpoint. One command serves all requests made
// meanwhile. Then the job is stopped if a requester wants that (SV-15, SV-16).
func TestCheckpointRequests(t *testing.T) {
	for _, test := range []struct{ name, fails, answers, says string }{
		{"done", "", `["" ""]`, "[]"},
		{"failed", "the command of --ckpt-cmd exited with code 2", `["the command of --ckpt-cmd exited with code 2" "the command of --ckpt-cmd exited with code 2"]`, "[the command of --ckpt-cmd exited with code 2]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, world, said, posted := asking(t)
			var answers []string
			stopped := 0
			answer := func(why string) { answers = append(answers, why) }
			c.Request(answer, nil)
			c.Request(answer, func() { stopped++ })
			if got, want := <-world.began, "save MPIEXEC_JOBID=j MPIEXEC_CKPT_DIR=/d MPIEXEC_ATTEMPT=2"; got != want {
				t.Errorf("it is called as %q, want %q", got, want)
			}
			world.ends <- test.fails
			(<-posted)()
			if got := fmt.Sprintf("%q", answers); got != test.answers || stopped != 1 || fmt.Sprint(*said) != test.says || len(world.began) > 0 {
				t.Errorf("answers %s, stopped %d times, says %v, %d more commands", got, stopped, *said, len(world.began))
			}
		})
	}
}

// The end of the job ends the command, and all requesters get a reply.
func TestCheckpointRequestAtTheEnd(t *testing.T) {
	c, world, _, posted := asking(t)
	var answers []string
	c.Request(func(why string) { answers = append(answers, why) }, func() { t.Error("a job that ends is stopped") })
	<-world.began
	c.job.State.Step(supervise.RankEnded{Exit: &job.Exit{Rank: 0, Code: 3}}, time.Now())
	c.update(time.Now())
	(<-posted)() // the command was killed
	c.Request(func(why string) { answers = append(answers, why) }, nil)
	if want := []string{"the job ended before the checkpoint was complete", "the job is already ending"}; !slices.Equal(answers, want) {
		t.Errorf("answers %q, want %q", answers, want)
	}
}
