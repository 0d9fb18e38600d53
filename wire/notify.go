package wire

import "math"

/*
Events of PMIx (pmix-wire.md 6.7): what a rank tells others, of which some are on other nodes.

	mpiexec                                      helper
	   | <---------------------------------- Notify   a rank here tells others
	   | Notify ---------------------------------->   to all nodes where they may be
	   | Notified -------------------------------->   it has been passed on

An ID is the helper's, for the answer; what mpiexec passes on has none. A node has so many under way as
TRUST-4 says.
*/

// Notify tells of an event, by its code. To are the members that may hear of it, as pmiserver/fence has them;
// empty: all. Infos are as PMIx has them.
type Notify struct {
	ID    int
	Group string
	Rank  int // in its group
	Code  int
	To    string
	Infos []byte
}

func (m *Notify) fields(c *codec) {
	c.num(&m.ID, aQuestion)
	c.word(&m.Group, "group")
	c.num(&m.Rank, aRank)
	c.num(&m.Code, valueRange{"code", math.MinInt32, math.MaxInt32})
	c.text(&m.To, length{"members", 128 << 10})
	c.bytes(&m.Infos, length{"infos", 64 << 10})
}

// Notified answers Notify.
type Notified struct{ ID int }

func (m *Notified) fields(c *codec) { c.num(&m.ID, aQuestion) }
