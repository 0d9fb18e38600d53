package pmi2

import (
	"fmt"

	"remshell/pmiserver/pmiversion"
	"remshell/pmiserver/spawn"
)

// fieldNames are the field names of a spawn request in PMI-2 (pmi-wire.md 4.6).
var fieldNames = spawn.FieldNames{
	Ranks: "maxprocs", ArgCount: "argc", Arg: "argv", ArgFirst: 0,
	InfoCount: "infokeycount", InfoKey: "infokey", InfoVal: "infoval",
	PutCount: "preputcount", PutKey: "ppkey", PutVal: "ppval",
}

// spawn handles a spawn request. In the list of fields, each field subcmd begins a command (pmi-wire.md 4.6).
func (c *Conversation) spawn() {
	why := "bad_request"
	if r, ok := parseSpawn(c.fields); ok {
		c.beginReplyHead()
		head := c.takeReply()
		why = c.Session.Spawn(r, func(o spawn.Result) []byte { return spawnReply(head, o) })
	}
	if why != "" {
		c.refuse(rcOther, why)
	}
}

// parseSpawn parses a spawn request. ok is false if the request contains fewer list items or programs than it says.
func parseSpawn(fields pmiversion.Fields) (r spawn.Request, ok bool) {
	first := make(spawn.Segment)
	programs, segments := []string(nil), []spawn.Segment{first}
	for _, f := range fields {
		if string(f.Key) == "subcmd" {
			programs, segments = append(programs, string(f.Value)), append(segments, make(spawn.Segment))
			continue
		}
		segments[len(programs)].AddField(f.Key, f.Value)
	}
	if r.Preputs, ok = first.Preputs(&fieldNames); !ok {
		return r, false
	}
	for i, program := range programs {
		command, ok := segments[i+1].Command(program, &fieldNames)
		if !ok {
			return r, false
		}
		r.Commands = append(r.Commands, command)
	}
	return r, first.Number("ncmds") == len(programs)
}

// spawnReply returns the reply to a spawn request. head is the part before rc.
func spawnReply(head []byte, o spawn.Result) []byte {
	if o.Err != nil {
		head = fmt.Appendf(head, "rc=%d;errmsg=%s;", rcOther, pmiversion.ErrorWord(o.Err))
	} else {
		codes, n := o.ErrorCodes()
		head = fmt.Appendf(head, "rc=0;jobid=%s;nerrs=%d;", o.Group, n)
		if n > 0 {
			head = fmt.Appendf(head, "errcodes=%s;", codes)
		}
	}
	putLength(head)
	return head
}
