package pmi1

import (
	"bytes"
	"errors"
	"fmt"

	"remshell/pmiserver/pmiversion"
	"remshell/pmiserver/spawn"
)

// fieldNames is how PMI-1 writes a request (pmi-wire.md 2.7).
var fieldNames = spawn.FieldNames{
	Ranks: "nprocs", ArgCount: "argcnt", Arg: "arg", ArgFirst: 1,
	InfoCount: "info_num", InfoKey: "info_key_", InfoVal: "info_val_",
	PutCount: "preput_num", PutKey: "preput_key_", PutVal: "preput_val_",
}

// maxBlock is how long all segments of one request may be, in bytes.
const maxBlock = 1 << 20

var errLongBlock = errors.New("a spawn request of more than 1 MiB")

// A spawnBlock is an mcmd request under way: segments of lines, each from mcmd= to
// endcmd, of which the last has spawnssofar equal to totspawns (2.7).
type spawnBlock struct {
	bytes     int
	inSegment bool          // a segment
	segment   spawn.Segment // under way
	invalid   bool          // the segments are not what they should be
	request   spawn.Request
}

// handleSpawnLine reads a line of an mcmd request, and answers when it was the last.
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

// endSegment takes in a segment, and reports whether it was the last.
func (b *spawnBlock) endSegment() bool {
	s, r := b.segment, &b.request
	total, sofar := s.Number("totspawns"), s.Number("spawnssofar")
	command, ok := s.Command(s["execname"], &fieldNames)
	r.Commands = append(r.Commands, command)
	b.invalid = b.invalid || !ok || total < 1 || sofar != len(r.Commands)
	if len(r.Preputs) == 0 { // old clients repeat them, new ones do not
		r.Preputs, ok = s.Preputs(&fieldNames)
		b.invalid = b.invalid || !ok
	}
	return sofar >= total
}

// spawn answers a whole request. If it is refused, MPI_Comm_spawn returns an
// error of class MPI_ERR_SPAWN, and the program goes on.
func (c *Conversation) spawn(b *spawnBlock) {
	var why string
	switch {
	case !c.Inited:
		why = "not_initialized"
	case b.invalid:
		why = "bad_request"
	default:
		why = c.Server.Spawn(b.request, spawnReply)
	}
	if why != "" {
		c.refuse("spawn_result", why)
	}
}

// maxReply is the longest line that old clients can read, in bytes (2.1).
const maxReply = 1023

// spawnReply is the answer when that is done. Codes that the client could not read are left out;
// the missing processes then show when one tries to reach them.
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
