package pmi2

import "remshell/pmiserver/pmiversion"

func (c *Conversation) publish() {
	port := c.fields.Text("port")
	if len(port) == 0 {
		c.refuse(rcArgument, "missing_port")
		return
	}
	added, err := c.Session.Publish(c.fields.Text("name"), port)
	c.replyNameService("already_published", added, err)
}

func (c *Conversation) unpublish() {
	removed, err := c.Session.Unpublish(c.fields.Text("name"))
	c.replyNameService("not_found", removed, err)
}

// lookup handles the request name-lookup. The reply contains the port in two fields, because clients differ
// in which field they read.
func (c *Conversation) lookup() {
	port, found, err := c.Session.Lookup(c.fields.Text("name"))
	switch {
	case err != nil:
		c.replyNameService("", false, err)
	case !found:
		c.beginReply(1)
		c.AppendReply("found=FALSE;errmsg=not_found;")
		c.endReply()
	default:
		c.beginReply(0)
		c.AppendReply("found=TRUE;")
		c.addField("port", []byte(port))
		c.addField("value", []byte(port))
		c.endReply()
	}
}

// replyNameService replies to a name service request whose reply contains no port. If err is not nil or ok is false,
// the reply is an error. If err is nil, failure is the reason in this reply.
func (c *Conversation) replyNameService(failure string, ok bool, err error) {
	switch {
	case err != nil:
		if err != pmiversion.ErrUnsupported {
			c.Session.Note("name service: " + err.Error())
		}
		c.refuse(rcOther, pmiversion.ErrorWord(err))
	case !ok:
		c.refuse(1, failure)
	default:
		c.replyOK()
	}
}
