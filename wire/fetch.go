package wire

import "math"

/*
Direct gets (PMIX-62): a rank asks for what one of another node has committed, and no fence has brought.

	mpiexec                                      helper
	   | <----------------------------------- Fetch   a rank here asks
	   | Fetch ----------------------------------->   to the node of the rank that is asked for
	   | <--------------------------------- Fetched   when that has committed it, or will not
	   | Fetched --------------------------------->   to the node of who asks

ID is the sender's, for the answer. mpiexec keeps nothing of what goes through it. A node has so
many under way as TRUST-4 says.
*/

// MaxFetched is how many bytes a rank may have committed for others.
const MaxFetched = 16 << 20

// Fetch asks for all that a rank has committed for others, when it has a key. Patience is for how
// many seconds the answer is waited for at most; 0: as PMIX-33 has it if nothing is said.
type Fetch struct {
	ID       int
	Group    string
	Rank     int    // in its group
	Key      string // empty: any
	Patience int
}

func (m *Fetch) fields(c *codec) {
	c.num(&m.ID, aQuestion)
	c.word(&m.Group, "group")
	c.num(&m.Rank, aRank)
	c.text(&m.Key, aKey)
	c.num(&m.Patience, valueRange{"patience", 0, math.MaxInt32})
}

// Fetched answers Fetch. Without Found the rank has no such key, and will have none in the time
// that was given; with Err it could not be asked, or not be answered.
type Fetched struct {
	ID    int
	Found bool
	Data  []byte
	Err   string
}

func (m *Fetched) fields(c *codec) {
	c.num(&m.ID, aQuestion)
	c.flag(&m.Found)
	c.bytes(&m.Data, length{"data", MaxFetched})
	c.sentence(&m.Err, "error")
}
