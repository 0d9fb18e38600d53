package pmix

import "remshell/pmiserver/pmix/message"

// traceRequest calls Trace with a description of a request, if Trace is not nil (rule PMIX-25).
func (c *client) traceRequest(r message.Request) {
	if c.group.Trace != nil {
		c.group.Trace(c.rank.number, "< "+message.Trace(r))
	}
}

// traceReply calls Trace with a description of a reply, if Trace is not nil.
func (c *client) traceReply(request, reply string) {
	if c.group.Trace != nil {
		c.group.Trace(c.rank.number, "> "+request+" "+reply)
	}
}
