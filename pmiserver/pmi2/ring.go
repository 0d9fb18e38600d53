package pmi2

import (
	"strconv"

	"remshell/pmiserver/kvs"
)

// ringKey returns the key of the value that a rank sends to its "left" or "right" neighbor in the ring of MVAPICH2
// and Slurm (pmi-wire.md 4.7). In a ring, every rank sends a value to each of its two neighbors. Because all ranks of
// the group take part, a ring is a barrier in which every rank puts two keys. Clients cannot put these keys
// themselves.
func ringKey(side string, rank int) []byte {
	return strconv.AppendInt([]byte("PMI_ring_"+side+"_"), int64(rank), 10)
}

func (c *Conversation) ring() {
	left, right := c.fields.Text("ring-left"), c.fields.Text("ring-right")
	if len(left) > kvs.MaxValue || len(right) > kvs.MaxValue {
		c.refuse(rcValueLen, "value_too_long")
		return
	}
	if !c.Keys.Put(ringKey("left", c.Number), left) || !c.Keys.Put(ringKey("right", c.Number), right) {
		c.refuse(rcOther, "kvs_full")
		return
	}
	c.beginReplyHead()
	head := c.takeReply()
	keys, rank, size := c.Keys.Store, c.Number, c.Size
	c.Session.Fence(func() []byte { return ringAnswer(head, keys, rank, size) })
}

// ringAnswer returns the reply to a rank's ring request. It contains the value that the left neighbor has sent to its
// own right neighbor, which is this rank, and the value that the right neighbor has sent to its own left neighbor. The
// first and the last rank are neighbors. head is the part of the reply before rc.
func ringAnswer(head []byte, keys *kvs.Store, rank, size int) []byte {
	left, _ := keys.Get(ringKey("right", (rank+size-1)%size))
	right, _ := keys.Get(ringKey("left", (rank+1)%size))
	head = append(head, "rc=0;ring-count="...)
	head = strconv.AppendInt(head, int64(rank), 10)
	head = appendEscaped(append(head, ";ring-left="...), left)
	head = appendEscaped(append(head, ";ring-right="...), right)
	head = append(head, ';')
	putLength(head)
	return head
}
