package pmi1

import (
	"bytes"
	"errors"
	"fmt"

	"remshell/pmiserver/pmiversion"
	"remshell/pmiserver/spawn"
)

// fieldNames are the field names of a spawn request in PMI-1 (pmi-wire.md 2.7).
var fieldNames = spawn.FieldNames{
	Ranks: "nprocs", ArgCount: "argcnt", Arg: "arg", ArgFirst: 1,
	InfoCount: "info_num", InfoKey: "info_key_", InfoVal: "info_val_",
	PutCount: "preput_num", PutKey: "preput_key_", PutVal: "preput_val_",
}

// maxBlock is the maximum size, in bytes, of all segments of one spawn request together.
const maxBlock = 1 << 20

var errLongBlock = errors.New("the spawn request of the rank is larger than 1 MiB")

// A spawnBlock is a spawn request (mcmd) that is not complete yet. The request consists of one or more
// segments. Each segment starts with the line mcmd= and ends with the line endcmd. In the last segment
// spawnssofar equals totspawns (pmi-wire.md 2.7).
type spawnBlock struct {
	bytes     int
	inSegment bool          // within a segment
	segment   spawn.Segment // the current segment
	invalid   bool          // a segment is malformed
	request   spawn.Request
}

// handleSpawnLine handles one line of a spawn request (mcmd). After the last line it carries out the request.
func (c *Conversation) handleSpawnLine(line []byte) error {
	if c.spawnBlock == nil {
		c.spawnBlock = &spawnBlock{}
	}
	b := c.spawnBlock
	if b.bytes += len(line) + 1; b.bytes > maxBlock {
		return errLongBlock
	}
	b.inSegment = true
	switch key, value, _ := bytes.Cut(line, []byte("=")); string(key) {
	case "mcmd":
		b.segment = make(spawn.Segment)
		b.invalid = b.invalid || string(value) != "spawn"
	case "endcmd":
		b.inSegment = false
		if b.endSegment() {
			c.spawnBlock = nil
			c.spawn(b)
		}
	default:
		b.segment.AddField(key, value)
	}
	return nil
}

// endSegment adds a completed segment to the request, and reports whether it was the last one.
func (b *spawnBlock) endSegment() bool {
	s, r := b.segment, &b.request
	total, sofar := s.Number("totspawns"), s.Number("spawnssofar")
	command, ok := s.Command(s["execname"], &fieldNames)
	r.Commands = append(r.Commands, command)
	b.invalid = b.invalid || !ok || total < 1 || sofar != len(r.Commands)
	if len(r.Preputs) == 0 { // old clients repeat the preputs in each segment, new ones do not
		r.Preputs, ok = s.Preputs(&fieldNames)
		b.invalid = b.invalid || !ok
	}
	return sofar >= total
}

// spawn carries out a complete spawn request. If the request is refused, MPI_Comm_spawn returns an error of
// class MPI_ERR_SPAWN, and the program continues.
func (c *Conversation) spawn(b *spawnBlock) {
	var why string
	switch {
	case !c.Inited:
		why = "not_initialized"
	case b.invalid:
		why = "bad_request"
	default:
		why = c.Session.Spawn(b.request, spawnReply)
	}
	if why != "" {
		c.refuse("spawn_result", why)
	}
}

// maxReply is the length in bytes of the longest line that old clients can read (pmi-wire.md 2.1).
const maxReply = 1023

// spawnReply returns the reply to a spawn request. If the error codes do not fit into the line, they are
// left out. The program then notices that processes are missing when it tries to communicate with them.
func spawnReply(o spawn.Result) []byte {
	if o.Err != nil {
		return []byte("cmd=spawn_result rc=-1 msg=" + pmiversion.ErrorWord(o.Err) + "\n")
	}
	if codes, n := o.ErrorCodes(); n > 0 {
		line := fmt.Appendf(nil, "cmd=spawn_result rc=0 errcodes=%s\n", codes)
		if len(line) <= maxReply {
			return line
		}
	}
	return []byte("cmd=spawn_result rc=0\n")
}
