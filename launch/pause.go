package launch

import (
	"fmt"

	"remshell/job"
	"remshell/launch/node"
	"remshell/usererr"
	"remshell/wire"
)

/*
An attemptPause is the time between two attempts, until the ranks of the next attempt start. During this time no
goroutine handles messages. So the goroutine that reads a node's connection replies to requests of users itself.

	helper --ControlRequest--> Listen --> attemptPause.reply --ControlReply--> helper
	                            '-- --end: cancels the context of all attempts
*/
type attemptPause struct {
	nextAttempt int         // number of the next attempt
	endJob      func(error) // ends the job
}

// reply returns the reply to a user's request. The helper has already checked that the user may make it.
func (g *attemptPause) reply(n *node.Node, m *wire.ControlRequest) *wire.ControlReply {
	switch m.Request.Verb {
	case job.VerbStatus:
		return &wire.ControlReply{ID: m.ID, State: job.ReplyDone, Text: fmt.Sprintf("no rank of the job is running: attempt %d has not begun yet", g.nextAttempt)}
	case job.VerbEnd:
		requested := NewRequest(n, m)
		g.endJob(&usererr.Error{Text: requested.EndText(), Code: job.SIGTERM.Status()})
		return &wire.ControlReply{ID: m.ID, State: job.ReplyAccepted, Text: "the job is being ended"}
	}
	return &wire.ControlReply{ID: m.ID, State: job.ReplyRefused, Text: fmt.Sprintf("no rank of the job is running: attempt %d has not begun yet; ask again then", g.nextAttempt)}
}

// replyDuringPause replies to a request if the job is between two attempts, and reports whether it is.
func (j *Job) replyDuringPause(n *node.Node, m *wire.ControlRequest) bool {
	g := j.pause.Load()
	if g == nil {
		return false
	}
	answer := g.reply(n, m)
	n.Send(answer)
	j.Env.Events().Controlled(job.ControlEvent{Node: n.Name(), Verb: m.Request.Verb, User: m.Request.User, State: answer.State})
	return true
}
