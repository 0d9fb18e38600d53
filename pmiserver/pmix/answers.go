package pmix

import (
	"fmt"

	"remshell/pmiserver/fence"
	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
)

// answer does what a request asks for, and sees to it that it is answered: at once, or when
// others have done their part. A request that has no case here is not served.
func (c *client) answer(q envelope, request message.Request) {
	switch r := request.(type) {
	case *message.Req:
		c.jobInfo(q)
	case *message.Abort:
		c.abort(q, r)
	case *message.Commit:
		c.status(q, c.group.commit(c.rank, r.Parts))
	case *message.Fence:
		c.meet(q, fence.Collective, r.Procs, fenceCall{collect: r.Options.Collect(), timeout: r.Options.Timeout()})
	case *message.Connect:
		c.meet(q, fence.Connect, r.Procs, fenceCall{collect: true, timeout: r.Options.Timeout()}) // what each has committed is known to the others then
	case *message.Disconnect:
		c.meet(q, fence.Disconnect, r.Procs, fenceCall{timeout: r.Options.Timeout()})
	case *message.GroupConstruct:
		c.construct(q, r)
	case *message.GroupDestruct:
		c.destruct(q, r)
	case *message.Get:
		c.get(q, r)
	case *message.Spawn:
		c.spawn(q, r)
	case *message.Publish:
		c.publish(q, r)
	case *message.Lookup:
		c.lookup(q, r)
	case *message.Unpublish:
		c.unpublish(q, r)
	case *message.Finalize:
		c.become(Finalized)
		c.status(q, message.Success)
	case *message.JobControl:
		c.status(q, c.control(r))
	case *message.Notify:
		c.notify(q, r)
	case *message.RegEvents:
		c.status(q, c.register(r.Codes))
	case *message.DeregEvents: // has no answer
		c.deregister(r.Codes)
	case *message.Log:
		c.status(q, c.print(r))
	case *message.Query:
		c.query(q, r)
	default:
		c.status(q, message.NotSupported)
	}
}

// jobInfo tells a rank what it is part of, and takes it to where it may ask for all else.
func (c *client) jobInfo(q envelope) {
	_, info, err := c.group.know(c.server.ctx)
	if err != nil {
		c.note(fmt.Sprintf("PMIx: where the ranks are is unknown: %v", err))
		c.status(q, message.Failed)
		return
	}
	c.become(Initialized)
	c.reply(q, "job info", message.AppendJobInfo(message.NewReply(q.tag), c.group.Namespace, info))
}

// abort ends the job. The client waits for our answer, and then ends; so it comes behind. An abort
// that nobody hears of, since the rank has ended and left the client behind, changes nothing.
func (c *client) abort(q envelope, r *message.Abort) {
	text := r.Message
	if text == "N/A" { // Open MPI has nothing to say
		text = ""
	}
	if c.group.Abort != nil && c.group.Abort(c.rank.number, int(r.Code), text) {
		c.server.freeze(c.group)
	}
	c.status(q, message.Success)
}

// query answers questions about the system, if it knows all that is asked (pmix-wire.md 6.13).
func (c *client) query(q envelope, r *message.Query) {
	var told []bfrops.Info
	for _, question := range r.Questions {
		for _, key := range question.Keys {
			value, known := systemFacts[key]
			if !known || len(told) >= bfrops.MaxInfos {
				c.status(q, message.NotSupported)
				return
			}
			told = append(told, bfrops.Info{Key: key, Value: value})
		}
	}
	c.reply(q, fmt.Sprintf("%d told", len(told)), message.AppendTold(message.NewReply(q.tag), told))
}

// systemFacts are what every rank is told who asks: there are no sets of processes but those of MPI itself.
var systemFacts = map[string]bfrops.Value{
	"pmix.qry.psetnum": bfrops.SizeOf(0),
	"pmix.qry.psets":   bfrops.TextOf(""),
}

// meet takes a rank to where it meets those that it names.
func (c *client) meet(q envelope, kind fence.Kind, procs []bfrops.Proc, call fenceCall) {
	call.client, call.question = c, q
	members, err := newSet(procs, c.server.sizes)
	switch {
	case err != nil, !members.has(c.group.Name, c.rank.number):
		c.status(q, message.BadParameter)
		return
	case c.ending():
		c.status(q, message.Failed)
		return
	}
	if !c.server.come(kind, members, call) {
		c.status(q, message.TooMuch)
	}
}

// control takes down what files a rank leaves. Its directories are below that of the session,
// which goes as a whole; nobody is ended or stopped by a rank.
func (c *client) control(r *message.JobControl) message.Status {
	left, all := r.Cleanup()
	if !all {
		return message.NotSupported
	}
	if c.group.Leaves != nil && len(left.Files) > 0 {
		for _, file := range c.group.Leaves(c.rank.number, left.Files) {
			c.note(fmt.Sprintf("%q is not ours to remove", file))
		}
	}
	return message.Success
}

// print has the texts of a library's messages printed (PMIX-48). What is for a log of the system is
// not ours to write.
func (c *client) print(r *message.Log) message.Status {
	texts, all := r.Texts()
	for _, text := range texts {
		if c.group.Print != nil && text.Text != "" {
			c.group.Print(c.server.ctx, c.rank.number, text)
		}
	}
	if !all {
		return message.NotSupported
	}
	return message.Success
}
