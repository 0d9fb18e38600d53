package pmi1

import "remshell/pmiserver/pmiversion"

func (c *Conversation) publish() {
	port := c.fields.Text("port")
	if len(port) == 0 { // some programs publish an empty port, when MPI_Open_port has failed
		c.refuse("publish_result", "missing_port")
		return
	}
	added, err := c.Session.Publish(c.fields.Text("service"), port)
	c.replyNameService("publish_result", "key_already_present", added, err)
}

func (c *Conversation) unpublish() {
	removed, err := c.Session.Unpublish(c.fields.Text("service"))
	c.replyNameService("unpublish_result", "service_not_found", removed, err)
}

// lookup handles the request lookup_name. In the reply, the port comes last on the line, because it may
// contain any characters, even spaces.
func (c *Conversation) lookup() {
	port, found, err := c.Session.Lookup(c.fields.Text("service"))
	if err != nil || !found {
		c.replyNameService("lookup_result", "service_not_found", false, err)
		return
	}
	c.AppendReply("cmd=lookup_result rc=0 port=" + port + "\n")
}

// replyNameService replies to a name service request whose reply contains no port. If err is not nil, the request is
// refused. Otherwise ok says whether the reply is success. If it is not, the reply contains failure as the message.
func (c *Conversation) replyNameService(answer, failure string, ok bool, err error) {
	switch {
	case err != nil:
		if err != pmiversion.ErrUnsupported {
			c.Session.Note("name service: " + err.Error())
		}
		c.refuse(answer, pmiversion.ErrorWord(err))
	case !ok:
		c.AppendReply("cmd=" + answer + " rc=1 msg=" + failure + "\n")
	default:
		c.AppendReply("cmd=" + answer + " rc=0 info=ok msg=success\n")
	}
}
