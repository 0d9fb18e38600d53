package pmix

import "remshell/pmiserver/pmix/message"

// traceRequest reports a request to Trace, unless that is nil (PMIX-25).
func (c *client) traceRequest(r message.Request) {
	if c.group.Trace != nil {
		c.group.Trace(c.rank.number, "< "+message.Trace(r))
	}
}

// traceReply reports a reply to Trace, unless that is nil.
func (c *client) traceReply(to, reply string) {
	if c.group.Trace != nil {
		c.group.Trace(c.rank.number, "> "+to+" "+reply)
	}
}
