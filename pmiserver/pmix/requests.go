package pmix

import (
	"fmt"

	"remshell/pmiserver/fence"
	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
)

// handleRequest handles a request. It replies now, or later if the request must first wait, for example for calls of
// other processes. It rejects kinds of requests that are not supported.
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
		c.joinCollective(q, fence.Connect, r.Procs, fenceCall{collect: true, timeout: r.Options.Timeout()}) // exchanges what each process has committed
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
	case *message.DeregEvents: // has no reply
		c.deregisterEvents(r.Codes)
	case *message.Log:
		c.replyStatus(q, c.printLog(r))
	case *message.Query:
		c.handleQuery(q, r)
	default:
		c.replyStatus(q, message.NotSupported)
	}
}

// replyJobInfo sends the job info to a rank, and sets the rank's state to Initialized.
func (c *client) replyJobInfo(q requestInfo) {
	_, info, err := c.group.loadJobInfo(c.server.ctx)
	if err != nil {
		c.note(fmt.Sprintf("PMIx: cannot get the information about the job: %v", err))
		c.replyStatus(q, message.Failed)
		return
	}
	c.setState(Initialized)
	c.reply(q, "job info", message.AppendJobInfo(message.NewReply(q.tag), c.group.Namespace, info))
}

// handleAbort reports an abort, which ends the job. It reports the abort before it replies, because the client
// exits once it has the reply. It ignores an abort that a child process sends after the rank has ended.
func (c *client) handleAbort(q requestInfo, r *message.Abort) {
	text := r.Message
	if text == "N/A" { // Open MPI sends this for an empty message
		text = ""
	}
	if c.group.Abort != nil && c.group.Abort(c.rank.number, int(r.Code), text) {
		c.server.freezeGroup(c.group)
	}
	c.replyStatus(q, message.Success)
}

// handleQuery replies with the values of all keys in a query. If a key is unknown, it replies with the status
// NotSupported (pmix-wire.md 6.13).
func (c *client) handleQuery(q requestInfo, r *message.Query) {
	var results []bfrops.Info
	for _, question := range r.Questions {
		for _, key := range question.Keys {
			value, known := queryValues[key]
			if !known || len(results) >= bfrops.MaxInfos {
				c.replyStatus(q, message.NotSupported)
				return
			}
			results = append(results, bfrops.Info{Key: key, Value: value})
		}
	}
	c.reply(q, fmt.Sprintf("%d told", len(results)), message.AppendQueryResult(message.NewReply(q.tag), results))
}

// queryValues maps each key that a query may contain to its value. The values say that there are no process sets.
var queryValues = map[string]bfrops.Value{
	"pmix.qry.psetnum": bfrops.SizeOf(0),
	"pmix.qry.psets":   bfrops.TextOf(""),
}

// joinCollective lets a rank enter a collective of the processes that the request names.
func (c *client) joinCollective(q requestInfo, kind fence.Kind, procs []bfrops.Proc, call fenceCall) {
	call.client, call.request = c, q
	find := c.server.groupSize
	if kind == fence.Connect || kind == fence.Disconnect || kind == fence.PMIxFence { // Open MPI disconnects by a fence
		find = c.server.groupOrForeign(c.group.Namespace)
	}
	members, err := newProcSet(procs, find)
	switch {
	case err != nil && kind == fence.Connect:
		c.group.warn(c.rank.number, "PMIx: the rank tries to connect to processes of another job; for this, start both jobs with --names user or -nameserver HOST")
		c.replyStatus(q, message.BadParameter)
		return
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

// handleJobControl registers files that the helper removes after the rank has ended. It ignores
// directories, because they are in the session directory and are removed together with it. Requests to end
// or stop processes are not supported.
func (c *client) handleJobControl(r *message.JobControl) message.Status {
	cleanup, all := r.Cleanup()
	if !all {
		return message.NotSupported
	}
	if c.group.Cleanup != nil && len(cleanup.Files) > 0 {
		for _, file := range c.group.Cleanup(c.rank.number, cleanup.Files) {
			c.note(fmt.Sprintf("PMIx: mpiexec will not remove the file %q, because the rank has no right to request that", file))
		}
	}
	return message.Success
}

// printLog prints texts that an MPI library wants to show to the user (rule PMIX-48). Messages to the system
// log are not supported.
func (c *client) printLog(r *message.Log) message.Status {
	if c.group.Print == nil {
		return message.NotSupported
	}
	texts, all := r.Texts()
	for _, text := range texts {
		if text.Text != "" {
			c.group.Print(c.server.ctx, c.rank.number, text)
		}
	}
	if !all {
		return message.NotSupported
	}
	return message.Success
}
