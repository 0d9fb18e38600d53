package pmi2

import (
	"bytes"
	"slices"
	"sync"

	"remshell/pmiserver/kvs"
)

// maxAttrWaits is how many node attributes a rank may wait for at once. Real clients stay far
// below.
const maxAttrWaits = 1000

// NodeAttrs are the attributes of a node, which the ranks of a group there see at once.
type NodeAttrs struct {
	Store *kvs.Store // counts what they need

	mu     sync.Mutex // guards what follows, and the waits of conversations
	values map[string][]byte
	waits  map[string][]attrWait
}

// An attrWait is a request for an attribute that is not there yet.
type attrWait struct {
	c      *Conversation
	answer []byte // a frame but for the value
}

// putAttr stores an attribute, and returns who waits for it; it fails if there is no room.
func (a *NodeAttrs) putAttr(key, value []byte) (waits []attrWait, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.Store.AddPending(len(key) + len(value) + kvs.PairCost) {
		return nil, false
	}
	if a.values == nil {
		a.values = make(map[string][]byte)
	}
	if old, replaced := a.values[string(key)]; replaced {
		a.Store.SubtractPending(len(key) + len(old) + kvs.PairCost)
	}
	a.values[string(key)] = bytes.Clone(value)
	waits = a.waits[string(key)]
	delete(a.waits, string(key))
	for _, w := range waits {
		w.c.waits--
	}
	return waits, true
}

// getAttr returns an attribute. If there is none, and the rank waits for it, w is kept; full
// means that it waits for too many.
func (a *NodeAttrs) getAttr(key []byte, waits bool, w attrWait) (value []byte, found, full bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	value, found = a.values[string(key)]
	full = w.c.waits >= maxAttrWaits
	if !found && waits && !full {
		w.c.waits++
		if a.waits == nil {
			a.waits = make(map[string][]attrWait)
		}
		a.waits[string(key)] = append(a.waits[string(key)], w)
	}
	return value, found, full
}

// ForgetWaits drops what a conversation waits for that has ended.
func (a *NodeAttrs) ForgetWaits(c *Conversation) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, waits := range a.waits {
		waits = slices.DeleteFunc(waits, func(w attrWait) bool { return w.c == c })
		if a.waits[key] = waits; len(waits) == 0 {
			delete(a.waits, key)
		}
	}
}

// putNodeAttr stores an attribute, and answers all who wait for it.
func (c *Conversation) putNodeAttr() {
	key, value, ok := c.readPut()
	if !ok {
		return
	}
	waits, ok := c.nodeAttrs.putAttr(key, value)
	if !ok {
		c.refuse(rcOther, "kvs_full")
		return
	}
	c.replyOK()
	c.Server.Flush()
	for _, w := range waits {
		answer := append(appendEscaped(w.answer, value), ';')
		putLength(answer)
		w.c.Server.SendReply(answer)
	}
}

// getNodeAttr answers with an attribute; with wait=TRUE only when there is one.
func (c *Conversation) getNodeAttr() {
	waits := bytes.EqualFold(c.fields.Text("wait"), []byte("TRUE"))
	c.beginReply(0)
	c.AppendReply("found=TRUE;value=")
	value, found, full := c.nodeAttrs.getAttr(c.fields.Text("key"), waits, attrWait{c, c.takeReply()})
	switch {
	case found || !waits:
		c.replyValue(value)
	case full:
		c.refuse(rcOther, "too_many_waits")
	}
}
