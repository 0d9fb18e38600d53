package pmi2

import "remshell/pmiserver/dialect"

func (c *Conversation) publish() {
	port := c.fields.Text("port")
	if len(port) == 0 {
		c.refuse(rcArgument, "missing_port")
		return
	}
	added, err := c.Server.Publish(c.fields.Text("name"), port)
	c.named("already_published", added, err)
}

func (c *Conversation) unpublish() {
	removed, err := c.Server.Unpublish(c.fields.Text("name"))
	c.named("not_found", removed, err)
}

// lookup answers with the port twice, for clients differ in where they look.
func (c *Conversation) lookup() {
	port, found, err := c.Server.Lookup(c.fields.Text("name"))
	switch {
	case err != nil:
		c.named("", false, err)
	case !found:
		c.open(1)
		c.Say("found=FALSE;errmsg=not_found;")
		c.shut()
	default:
		c.open(0)
		c.Say("found=TRUE;")
		c.with("port", []byte(port))
		c.with("value", []byte(port))
		c.shut()
	}
}

// named answers a request of the name service that brings no value.
func (c *Conversation) named(no string, yes bool, err error) {
	switch {
	case err != nil:
		if err != dialect.ErrUnsupported {
			c.Server.Note("name service: " + err.Error())
		}
		c.refuse(rcOther, dialect.Word(err))
	case !yes:
		c.refuse(1, no)
	default:
		c.done()
	}
}
