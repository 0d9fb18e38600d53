package pmi2

import (
	"bytes"
	"slices"
	"sync"

	"remshell/pmiserver/kvs"
)

// maxAttrWaits is the maximum number of node attributes for which a rank may wait at the same time. Known
// clients wait for far fewer.
const maxAttrWaits = 1000

// NodeAttrs are the node attributes of a group on one node: key-value pairs that ranks of the group on the
// same node see at once, without a fence.
type NodeAttrs struct {
	Store *kvs.Store // counts their memory

	mu     sync.Mutex // guards the fields below, and Conversation.waits
	values map[string][]byte
	waits  map[string][]attrWait
}

// An attrWait is a request that waits until a node attribute is set.
type attrWait struct {
	c      *Conversation
	answer []byte // the reply frame without the value
}

// putAttr stores an attribute, and returns the requests that wait for this attribute. ok is false if the
// store is full.
func (a *NodeAttrs) putAttr(key, value []byte) (waiting []attrWait, ok bool) {
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
	waiting = a.waits[string(key)]
	delete(a.waits, string(key))
	for _, w := range waiting {
		w.c.waits--
	}
	return waiting, true
}

// getAttr returns an attribute. If it is missing and mayWait is true, getAttr queues the request w, unless
// the rank already waits for too many attributes; in that case full is true.
func (a *NodeAttrs) getAttr(key []byte, mayWait bool, w attrWait) (value []byte, found, full bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	value, found = a.values[string(key)]
	full = w.c.waits >= maxAttrWaits
	if !found && mayWait && !full {
		w.c.waits++
		if a.waits == nil {
			a.waits = make(map[string][]attrWait)
		}
		a.waits[string(key)] = append(a.waits[string(key)], w)
	}
	return value, found, full
}

// ForgetWaits drops queued requests of a conversation that has ended.
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

// putNodeAttr handles the request to store a node attribute, and replies to the requests that wait for this
// attribute.
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
	c.Session.Flush()
	for _, w := range waits {
		answer := append(appendEscaped(w.answer, value), ';')
		putLength(answer)
		w.c.Session.SendReply(answer)
	}
}

// getNodeAttr handles the request for a node attribute. With wait=TRUE, the reply is sent when the attribute
// exists.
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
