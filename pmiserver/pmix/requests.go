package pmix

import (
	"fmt"

	"remshell/pmiserver/fence"
	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
)

// handleRequest does what a request asks for, and sees to it that it is answered: at once, or when
// others have done their part. A request that has no case here is not served.
func (c *client) handleRequest(q requestInfo, request message.Request) {
	switch r := request.(type) {
	case *message.Req:
		c.replyJobInfo(q)
	case *message.Abort:
		c.handleAbort(q, r)
	case *message.Commit:
		c.replyStatus(q, c.group.commitPairs(c.rank, r.Parts))
	case *message.Fence:
		c.joinCollective(q, fence.PMIxFence, r.Procs, fenceCall{collect: r.Options.Collect(), timeout: r.Options.Timeout()})
	case *message.Connect:
		c.joinCollective(q, fence.Connect, r.Procs, fenceCall{collect: true, timeout: r.Options.Timeout()}) // what each has committed is known to the others then
	case *message.Disconnect:
		c.joinCollective(q, fence.Disconnect, r.Procs, fenceCall{timeout: r.Options.Timeout()})
	case *message.GroupConstruct:
		c.constructGroup(q, r)
	case *message.GroupDestruct:
		c.destructGroup(q, r)
	case *message.Get:
		c.handleGet(q, r)
	case *message.Spawn:
		c.handleSpawn(q, r)
	case *message.Publish:
		c.handlePublish(q, r)
	case *message.Lookup:
		c.handleLookup(q, r)
	case *message.Unpublish:
		c.handleUnpublish(q, r)
	case *message.Finalize:
		c.setState(Finalized)
		c.replyStatus(q, message.Success)
	case *message.JobControl:
		c.replyStatus(q, c.handleJobControl(r))
	case *message.Notify:
		c.handleNotify(q, r)
	case *message.RegEvents:
		c.replyStatus(q, c.registerEvents(r.Codes))
	case *message.DeregEvents: // has no answer
		c.deregisterEvents(r.Codes)
	case *message.Log:
		c.replyStatus(q, c.printLog(r))
	case *message.Query:
		c.handleQuery(q, r)
	default:
		c.replyStatus(q, message.NotSupported)
	}
}

// replyJobInfo tells a rank what it is part of, and takes it to where it may ask for all else.
func (c *client) replyJobInfo(q requestInfo) {
	_, info, err := c.group.loadJobInfo(c.server.ctx)
	if err != nil {
		c.note(fmt.Sprintf("PMIx: where the ranks are is unknown: %v", err))
		c.replyStatus(q, message.Failed)
		return
	}
	c.setState(Initialized)
	c.reply(q, "job info", message.AppendJobInfo(message.NewReply(q.tag), c.group.Namespace, info))
}

// handleAbort ends the job. The client waits for our answer, and then ends; so it comes behind. An abort
// that nobody hears of, since the rank has ended and left the client behind, changes nothing.
func (c *client) handleAbort(q requestInfo, r *message.Abort) {
	text := r.Message
	if text == "N/A" { // Open MPI has nothing to say
		text = ""
	}
	if c.group.Abort != nil && c.group.Abort(c.rank.number, int(r.Code), text) {
		c.server.freezeGroup(c.group)
	}
	c.replyStatus(q, message.Success)
}

// handleQuery answers questions about the system, if it knows all that is asked (pmix-wire.md 6.13).
func (c *client) handleQuery(q requestInfo, r *message.Query) {
	var told []bfrops.Info
	for _, question := range r.Questions {
		for _, key := range question.Keys {
			value, known := queryAnswers[key]
			if !known || len(told) >= bfrops.MaxInfos {
				c.replyStatus(q, message.NotSupported)
				return
			}
			told = append(told, bfrops.Info{Key: key, Value: value})
		}
	}
	c.reply(q, fmt.Sprintf("%d told", len(told)), message.AppendQueryResult(message.NewReply(q.tag), told))
}

// queryAnswers are what every rank is told who asks: there are no sets of processes but those of MPI itself.
var queryAnswers = map[string]bfrops.Value{
	"pmix.qry.psetnum": bfrops.SizeOf(0),
	"pmix.qry.psets":   bfrops.TextOf(""),
}

// joinCollective takes a rank to where it meets those that it names.
func (c *client) joinCollective(q requestInfo, kind fence.Kind, procs []bfrops.Proc, call fenceCall) {
	call.client, call.request = c, q
	members, err := newProcSet(procs, c.server.groupSize)
	switch {
	case err != nil, !members.hasRank(c.group.Name, c.rank.number):
		c.replyStatus(q, message.BadParameter)
		return
	case c.isEnding():
		c.replyStatus(q, message.Failed)
		return
	}
	if !c.server.enterCollective(kind, members, call) {
		c.replyStatus(q, message.NoMemory)
	}
}

// handleJobControl takes down what files a rank leaves. Its directories are below that of the session,
// which goes as a whole; nobody is ended or stopped by a rank.
func (c *client) handleJobControl(r *message.JobControl) message.Status {
	left, all := r.Cleanup()
	if !all {
		return message.NotSupported
	}
	if c.group.Cleanup != nil && len(left.Files) > 0 {
		for _, file := range c.group.Cleanup(c.rank.number, left.Files) {
			c.note(fmt.Sprintf("%q is not ours to remove", file))
		}
	}
	return message.Success
}

// printLog has the texts of a library's messages printed (PMIX-48). What is for a log of the system is
// not ours to write.
func (c *client) printLog(r *message.Log) message.Status {
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
