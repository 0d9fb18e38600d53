package pmix

import "remshell/pmiserver/pmix/message"

// traceRequest shows what a client says, if anybody looks (PMIX-25).
func (c *client) traceRequest(r message.Request) {
	if c.group.Trace != nil {
		c.group.Trace(c.rank.number, "< "+message.Trace(r))
	}
}

// traceReply shows what it is answered.
func (c *client) traceReply(to, answer string) {
	if c.group.Trace != nil {
		c.group.Trace(c.rank.number, "> "+to+" "+answer)
	}
}
