package control

import (
	"testing"
	"time"

	"remshell/job"
	"remshell/launch"
	"remshell/launch/control"
)

// A checkpointInProgress is launch.Checkpoints while a checkpoint is written.
type checkpointInProgress struct {
	launch.Checkpoints
	known   bool               // its end will be known
	waiting []func(why string) // callers of Request
}

func (c *checkpointInProgress) InProgress() bool { return c.known }

func (c *checkpointInProgress) Request(answer func(why string), stop func()) {
	c.waiting = append(c.waiting, answer)
}

// A job is suspended only after the checkpoint in progress, whatever its outcome. It is suspended at once if there is none,
// or if its end cannot be known. Other requests do not wait.
func TestASuspensionWaitsForTheCheckpoint(t *testing.T) {
	for _, test := range []struct {
		verb  job.Verb
		known bool
		waits bool
	}{
		{job.VerbSuspend, true, true}, {job.VerbSuspend, false, false}, {job.VerbEnd, true, false}, {job.VerbStatus, true, false},
	} {
		checkpoints := &checkpointInProgress{known: test.known}
		c := &controller{job: &launch.Job{Checkpoints: checkpoints}}
		waits := c.waitsForCheckpoint(control.Request{Verb: test.verb, User: "ann"})
		if waits != test.waits || waits != (len(checkpoints.waiting) == 1) {
			t.Errorf("%s, known %v: waits %v, %d ask", test.verb, test.known, waits, len(checkpoints.waiting))
		}
	}
}

// The line about a suspension names the user, and how to resume the job.
func TestSuspensionNamesTheUser(t *testing.T) {
	by := control.Request{User: "bob", Role: job.RoleAdministrator, SayingNode: "n3"}
	const want = "n3 says: the job was suspended by bob (administrator) (--suspend) after 00:01:40; to continue it: mpiexec --resume-job j-4711 a"
	if got := suspendText(by, 100*time.Second, "j-4711", "a"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
