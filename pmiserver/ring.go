package pmiserver

import "strconv"

// The ring of MVAPICH2 and Slurm (pmi-wire.md 4.7): every rank hands a value to
// each of its two neighbours. It meets all ranks, so it is a barrier that spreads
// two keys for each of them, which no client can put.
func ringKey(side string, rank int) []byte {
	return strconv.AppendInt([]byte("PMI_ring_"+side+"_"), int64(rank), 10)
}

func (c *session) ring() {
	left, right := c.args.text("ring-left"), c.args.text("ring-right")
	if len(left) > maxValue || len(right) > maxValue {
		c.refuse2(rcValueLen, "value_too_long")
		return
	}
	if !c.keep(ringKey("left", c.rank), left) || !c.keep(ringKey("right", c.rank), right) {
		c.refuse2(rcOther, "kvs_full")
		return
	}
	c.head()
	head := c.taken()
	c.flush()
	c.enter(func(s *snapshot) []byte { return ringAnswer(head, s, c.rank, c.s.info.Size) })
}

// ringAnswer tells a rank what its left neighbour sent to the right, and its right
// one to the left. The first and the last are neighbours.
func ringAnswer(head []byte, s *snapshot, rank, size int) []byte {
	left, _ := s.get(ringKey("right", (rank+size-1)%size))
	right, _ := s.get(ringKey("left", (rank+1)%size))
	head = append(head, "rc=0;ring-count="...)
	head = strconv.AppendInt(head, int64(rank), 10)
	head = appendEscaped(append(head, ";ring-left="...), left)
	head = appendEscaped(append(head, ";ring-right="...), right)
	head = append(head, ';')
	putLength(head)
	return head
}
