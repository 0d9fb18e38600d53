package pmiserver

import (
	"bytes"
	"fmt"
	"strconv"
)

// A spawnForm says how one of the protocols writes a spawn request. Lists are
// numbered, and their lengths stand in fields of their own; absent means 0.
type spawnForm struct {
	ranks                       string // how many processes
	argCount, arg               string
	argFirst                    int
	infoCount, infoKey, infoVal string
	putCount, putKey, putVal    string
}

var (
	spawnForm1 = spawnForm{ // pmi-wire.md 2.7
		ranks: "nprocs", argCount: "argcnt", arg: "arg", argFirst: 1,
		infoCount: "info_num", infoKey: "info_key_", infoVal: "info_val_",
		putCount: "preput_num", putKey: "preput_key_", putVal: "preput_val_",
	}
	spawnForm2 = spawnForm{ // 4.6
		ranks: "maxprocs", argCount: "argc", arg: "argv", argFirst: 0,
		infoCount: "infokeycount", infoKey: "infokey", infoVal: "infoval",
		putCount: "preputcount", putKey: "ppkey", putVal: "ppval",
	}
)

// A segment is the fields that describe one command. A key has the value it had
// first.
type segment map[string]string

func (s segment) add(key, value []byte) {
	if _, given := s[string(key)]; !given {
		s[string(key)] = string(value)
	}
}

// number returns a field that counts something; 0 if it is none.
func (s segment) number(key string) int {
	n, err := strconv.Atoi(s[key])
	if err != nil {
		return 0
	}
	return n
}

// command reads what is to be started; it fails if something counted is missing.
func (s segment) command(program string, form *spawnForm) (c Command, ok bool) {
	c.Argv, c.Count = []string{program}, s.number(form.ranks)
	for i := range s.number(form.argCount) {
		arg, given := s[form.arg+strconv.Itoa(form.argFirst+i)]
		if !given {
			return c, false
		}
		c.Argv = append(c.Argv, arg)
	}
	c.Info, ok = s.pairs(form.infoCount, form.infoKey, form.infoVal)
	return c, ok
}

// pairs reads a list of pairs, numbered from 0; it fails if one is missing.
func (s segment) pairs(count, keys, values string) (list []Pair, ok bool) {
	for i := range s.number(count) {
		key, hasKey := s[keys+strconv.Itoa(i)]
		value, hasValue := s[values+strconv.Itoa(i)]
		if !hasKey || !hasValue {
			return list, false
		}
		list = append(list, Pair{key, value})
	}
	return list, true
}

// A spawnBlock is an mcmd request under way: segments of lines, each from mcmd= to
// endcmd, of which the last has spawnssofar equal to totspawns (2.7).
type spawnBlock struct {
	bytes   int
	segment segment // under way
	bad     bool    // the segments are not what they should be
	request SpawnRequest
}

// hearSpawn reads a line of an mcmd request, and answers when it was the last.
func (c *session) hearSpawn(line []byte) error {
	if c.spawn == nil {
		c.spawn = &spawnBlock{}
	}
	b := c.spawn
	if b.bytes += len(line) + 1; b.bytes > maxBlock {
		return errLongBlock
	}
	c.in.block = true
	switch key, value, _ := bytes.Cut(line, []byte("=")); string(key) {
	case "mcmd":
		b.segment = make(segment)
		b.bad = b.bad || string(value) != "spawn"
	case "endcmd":
		c.in.block = false
		if b.end() {
			c.spawn = nil
			c.answerSpawn(b)
		}
	default:
		b.segment.add(key, value)
	}
	return nil
}

// end takes in a segment, and reports whether it was the last.
func (b *spawnBlock) end() bool {
	s, r := b.segment, &b.request
	total, sofar := s.number("totspawns"), s.number("spawnssofar")
	command, ok := s.command(s["execname"], &spawnForm1)
	r.Commands = append(r.Commands, command)
	b.bad = b.bad || !ok || total < 1 || sofar != len(r.Commands)
	if len(r.Preputs) == 0 { // old clients repeat them, new ones do not
		r.Preputs, ok = s.pairs(spawnForm1.putCount, spawnForm1.putKey, spawnForm1.putVal)
		b.bad = b.bad || !ok
	}
	return sofar >= total
}

// answerSpawn answers a whole request. If it is refused, MPI_Comm_spawn returns an
// error of class MPI_ERR_SPAWN, and the program goes on.
func (c *session) answerSpawn(b *spawnBlock) {
	var why string
	switch {
	case c.state != Inited:
		why = "not_initialized"
	case b.bad:
		why = "bad_request"
	default:
		why = c.begin(b.request, spawned.line)
	}
	if why != "" {
		c.refuse("spawn_result", why)
	}
}

// maxReply is the longest line that old clients can read, in bytes (2.1).
const maxReply = 1023

// line is the answer to a PMI-1 client. Codes that it could not read are left out;
// the missing processes then show when one tries to reach them.
func (s spawned) line() []byte {
	if s.err != nil {
		return []byte("cmd=spawn_result rc=-1 msg=" + word(s.err) + "\n")
	}
	if codes, n := s.faults(); n > 0 {
		line := fmt.Appendf(nil, "cmd=spawn_result rc=0 errcodes=%s\n", codes)
		if len(line) <= maxReply {
			return line
		}
	}
	return []byte("cmd=spawn_result rc=0\n")
}

// spawn2 is the spawn of PMI-2: one list of fields, in which each subcmd opens a
// command (4.6).
func (c *session) spawn2() {
	why := "bad_request"
	if r, ok := c.args.spawn(); ok {
		c.head()
		head := c.taken()
		why = c.begin(r, func(s spawned) []byte { return s.frame(head) })
	}
	if why != "" {
		c.refuse2(rcOther, why)
	}
}

// spawn reads a PMI-2 request; it fails if something counted is missing.
func (a args) spawn() (r SpawnRequest, ok bool) {
	first := make(segment)
	programs, segments := []string(nil), []segment{first}
	for _, f := range a {
		if string(f.key) == "subcmd" {
			programs, segments = append(programs, string(f.value)), append(segments, make(segment))
			continue
		}
		segments[len(programs)].add(f.key, f.value)
	}
	if r.Preputs, ok = first.pairs(spawnForm2.putCount, spawnForm2.putKey, spawnForm2.putVal); !ok {
		return r, false
	}
	for i, program := range programs {
		command, ok := segments[i+1].command(program, &spawnForm2)
		if !ok {
			return r, false
		}
		r.Commands = append(r.Commands, command)
	}
	return r, first.number("ncmds") == len(programs)
}

// frame is the answer to a PMI-2 client; head is all that comes before rc.
func (s spawned) frame(head []byte) []byte {
	if s.err != nil {
		head = fmt.Appendf(head, "rc=%d;errmsg=%s;", rcOther, word(s.err))
	} else {
		codes, n := s.faults()
		head = fmt.Appendf(head, "rc=0;jobid=%s;nerrs=%d;", s.group, n)
		if n > 0 {
			head = fmt.Appendf(head, "errcodes=%s;", codes)
		}
	}
	putLength(head)
	return head
}
