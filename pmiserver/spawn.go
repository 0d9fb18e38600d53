package pmiserver

import (
	"bytes"
	"strconv"
)

// A spawnRequest is an mcmd request under way: segments of lines, each from
// mcmd= to endcmd, of which the last has spawnssofar equal to totspawns
// (pmi-wire.md 2.7).
type spawnRequest struct {
	bytes        int
	total, sofar int // of the segment under way; 0: not said, or no number
}

// hearSpawn reads a line of an mcmd request, and answers when it was the last.
func (c *session) hearSpawn(line []byte) error {
	if c.spawn == nil {
		c.spawn = &spawnRequest{}
	}
	r := c.spawn
	if r.bytes += len(line) + 1; r.bytes > maxBlock {
		return errLongBlock
	}
	key, value, _ := bytes.Cut(line, []byte("="))
	c.in.block = true
	switch string(key) {
	case "mcmd":
		r.total, r.sofar = 0, 0
	case "totspawns":
		r.total, _ = strconv.Atoi(string(value))
	case "spawnssofar":
		r.sofar, _ = strconv.Atoi(string(value))
	case "endcmd":
		c.in.block = false
		if r.sofar >= r.total {
			c.spawn = nil
			c.answerSpawn(r)
		}
	}
	return nil
}

// answerSpawn refuses: MPI_Comm_spawn then returns an error of class
// MPI_ERR_SPAWN, and the program goes on.
func (c *session) answerSpawn(r *spawnRequest) {
	switch {
	case c.state != Inited:
		c.refuse("spawn_result", "not_initialized")
	case r.total < 1 || r.sofar != r.total:
		c.refuse("spawn_result", "bad_request")
	default:
		c.refuse("spawn_result", "unsupported")
	}
}
