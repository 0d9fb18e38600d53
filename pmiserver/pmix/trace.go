package pmix

import "remshell/pmiserver/pmix/message"

// traceRequest passes a request to Trace, if that is not nil (rule PMIX-25).
func (c *client) traceRequest(r message.Request) {
	if c.group.Trace != nil {
		c.group.Trace(c.rank.number, "< "+message.Trace(r))
	}
}

// traceReply passes a reply to Trace, if that is not nil.
func (c *client) traceReply(request, reply string) {
	if c.group.Trace != nil {
		c.group.Trace(c.rank.number, "> "+request+" "+reply)
	}
}
