// Package pmi1 implements PMI-1, which all MPI libraries of the MPICH family use. A request is a line "cmd=NAME
// key=value ...", and gets a reply. pmi-wire.md of the specification describes the protocol. Section numbers in
// comments refer to pmi-wire.md.
package pmi1

import (
	"bytes"
	"fmt"
	"strconv"

	"remshell/pmiserver/kvs"
	"remshell/pmiserver/pmiversion"
	"remshell/pmiserver/transcript"
)

// A Conversation handles the PMI-1 requests of one rank.
type Conversation struct {
	*pmiversion.Rank
	fields      pmiversion.Fields // the fields of the current request
	spawnBlock  *spawnBlock       // an incomplete spawn request; nil if there is none
	switched    bool              // the rank switched to PMI-2
	indexedKeys []string          // the keys that getbyidx iterates over
}

// MaxValue is the maximum length of a value, in bytes, that the server announces to clients.
const MaxValue = 1024

// New returns the conversation of a rank that has sent nothing yet.
func New(r *pmiversion.Rank) *Conversation { return &Conversation{Rank: r} }

// HandleLine handles one line without its line end. The line is a request or a part of a request. After an
// error, further input of the rank cannot be parsed.
func (c *Conversation) HandleLine(line []byte) error {
	if c.InSpawnBlock() || bytes.HasPrefix(line, []byte("mcmd=")) {
		return c.handleSpawnLine(line)
	}
	c.spawnBlock = nil // drops a request that stopped between two segments
	c.handleRequest(line)
	return nil
}

// InSpawnBlock reports whether the client has sent only a part of a spawn request. In that case, the next
// line need not be a command.
func (c *Conversation) InSpawnBlock() bool { return c.spawnBlock != nil && c.spawnBlock.inSegment }

// SwitchedToPMI2 reports whether the rank continues in PMI-2, with the request fullinit.
func (c *Conversation) SwitchedToPMI2() bool { return c.switched }

// A commandRule describes a PMI-1 command (pmi-wire.md 2.2).
type commandRule struct {
	reply      string   // the command of the reply
	required   []string // fields that must be present
	lastFields []string // fields that may contain spaces, in their order on the line
	beforeInit bool     // also allowed before init
	handle     func(*Conversation)
}

// requests lists the requests of PMI-1 by name, in the order of pmi-wire.md 2.5 and 2.9. Spawn requests (mcmd) are
// handled in spawn.go.
var requests = map[string]commandRule{
	"initack":           {reply: "initack", beforeInit: true, handle: (*Conversation).initack},
	"init":              {reply: "response_to_init", beforeInit: true, handle: (*Conversation).init},
	"get_maxes":         {reply: "maxes", handle: (*Conversation).maxes},
	"get_appnum":        {reply: "appnum", handle: (*Conversation).appnum},
	"get_my_kvsname":    {reply: "my_kvsname", handle: (*Conversation).kvsName},
	"get_universe_size": {reply: "universe_size", handle: (*Conversation).universe},
	"put":               {reply: "put_result", required: []string{"key", "value"}, lastFields: []string{"value"}, handle: (*Conversation).put},
	"get":               {reply: "get_result", required: []string{"key"}, handle: (*Conversation).get},
	"barrier_in":        {reply: "barrier_out", handle: (*Conversation).barrier},
	"finalize":          {reply: "finalize_ack", handle: (*Conversation).finalize},
	"abort":             {beforeInit: true, lastFields: []string{"error_msg", "message"}, handle: (*Conversation).abort},
	"publish_name":      {reply: "publish_result", required: []string{"service", "port"}, lastFields: []string{"service", "port"}, handle: (*Conversation).publish},
	"lookup_name":       {reply: "lookup_result", required: []string{"service"}, lastFields: []string{"service"}, handle: (*Conversation).lookup},
	"unpublish_name":    {reply: "unpublish_result", required: []string{"service"}, lastFields: []string{"service"}, handle: (*Conversation).unpublish},
	"create_kvs":        {reply: "newkvs", handle: (*Conversation).createKVS},
	"destroy_kvs":       {reply: "kvs_destroyed", handle: (*Conversation).destroyKVS},
	"getbyidx":          {reply: "getbyidx_results", required: []string{"idx"}, handle: (*Conversation).getByIndex},
	"get_ranks2hosts":   {reply: "get_ranks2hosts", handle: (*Conversation).ranks2hosts},
	"execution_problem": {beforeInit: true, lastFields: []string{"reason"}, handle: (*Conversation).executionProblem},
}

// handleRequest handles one request. It also replies to unknown requests, because a client waits for a reply
// to each request.
func (c *Conversation) handleRequest(line []byte) {
	name := commandName(line)
	req, known := requests[string(name)]
	if !known {
		c.refuse(c.NoteUnknown(name), "unknown_command")
		return
	}
	if !c.Inited && !req.beforeInit {
		c.refuse(req.reply, "not_initialized")
		return
	}
	Parse(&c.fields, line, req.lastFields)
	for _, key := range req.required {
		if _, found := c.fields.Find(key); !found {
			c.refuse(req.reply, "missing_"+key)
			return
		}
	}
	req.handle(c)
}

// refuse replies with an error, because a request has failed. reason must match [a-z0-9_]*.
func (c *Conversation) refuse(answer, reason string) {
	c.AppendReply("cmd=" + answer + " rc=-1 msg=" + reason + "\n")
}

// initack handles the request initack, which a client that connects through PMI_PORT sends before init. If the
// rank has an inherited descriptor instead, the reply is the same (pmi-wire.md 1.3).
func (c *Conversation) initack() {
	c.AppendReply("cmd=initack\ncmd=set size=")
	c.AppendReplyNumber(c.Size)
	c.AppendReply("\ncmd=set rank=")
	c.AppendReplyNumber(c.Number)
	c.AppendReply("\ncmd=set debug=0\n")
}

// These are the replies to an init of a PMI version other than PMI-1.
const (
	switchReply       = "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n"
	wrongVersionReply = "cmd=response_to_init rc=-1 pmi_version=1 pmi_subversion=1\n"
)

// init handles the request init. A rank may send it again at any time, which changes nothing. The reply
// offers version 1.1, whatever subversion the client sends. With version 1.2, MPICH would use group barriers
// (pmi-wire.md 2.10).
func (c *Conversation) init() {
	switch version, _ := c.fields.Number("pmi_version"); version {
	case 1:
		c.Session.Init()
		c.AppendReply("cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n")
	case 2: // the client continues in PMI-2, with fullinit
		c.switched = true
		c.AppendReply(switchReply)
	default:
		c.AppendReply(wrongVersionReply)
	}
}

// maxes handles the request get_maxes. It announces even numbers, because MPICH fails with an assertion if it computes
// an odd limit from them (pmi-wire.md 5).
func (c *Conversation) maxes() {
	c.AppendReply("cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=" + strconv.Itoa(MaxValue) + "\n")
}

func (c *Conversation) appnum() {
	c.AppendReply("cmd=appnum rc=0 appnum=")
	c.AppendReplyNumber(c.App)
	c.AppendReply("\n")
}

func (c *Conversation) kvsName() { c.AppendReply("cmd=my_kvsname rc=0 kvsname=" + c.Group + "\n") }

func (c *Conversation) universe() {
	size := c.Universe
	if size <= 0 {
		size = -1 // undefined; MPI then lacks the attribute MPI_UNIVERSE_SIZE
	}
	c.AppendReply("cmd=universe_size rc=0 size=")
	c.AppendReplyNumber(size)
	c.AppendReply("\n")
}

// isOtherKVS reports whether the request names a key-value space other than the group's.
func (c *Conversation) isOtherKVS() bool {
	name, given := c.fields.Find("kvsname")
	return given && string(name) != c.Group
}

func (c *Conversation) put() {
	key, value := c.fields.Text("key"), c.fields.Text("value")
	switch {
	case c.isOtherKVS():
		c.refuse("put_result", "unknown_kvsname")
	case len(key) == 0 || len(key) > kvs.MaxKey || bytes.IndexByte(key, '=') >= 0:
		c.refuse("put_result", "invalid_key")
	case bytes.HasPrefix(key, []byte("PMI_")):
		c.refuse("put_result", "reserved_key")
	case len(value) > kvs.MaxValue:
		c.refuse("put_result", "value_too_long")
	case !c.Keys.Put(key, value):
		c.refuse("put_result", "kvs_full")
	default:
		c.AppendReply("cmd=put_result rc=0\n")
	}
}

// get handles the request get, the most frequent one: the number of gets grows with the square of the number of ranks.
// It does not allocate memory. An empty value is treated as missing, because old clients fail if they receive one
// (pmi-wire.md 2.5).
func (c *Conversation) get() {
	if c.isOtherKVS() {
		c.refuse("get_result", "unknown_kvsname")
		return
	}
	key := c.fields.Text("key")
	if string(key) == "PMI_dead_processes" { // the list may be empty, as in Hydra
		c.AppendReply("cmd=get_result rc=0 value=" + c.Session.DeadRanks() + "\n")
		return
	}
	value, _ := c.Keys.Get(key)
	if string(key) == "PMI_process_mapping" {
		value = c.Mapping
	}
	if len(value) == 0 {
		c.AppendReply("cmd=get_result rc=-1 msg=key_not_found\n")
		return
	}
	c.AppendReply("cmd=get_result rc=0 value=")
	c.Replies = append(c.Replies, value...)
	c.AppendReply("\n")
}

// barrier handles the request barrier_in. It replies when all ranks of the group have entered the barrier. Version
// 1.1 has no barriers of subgroups, so a request that names a group is accepted only if the group is WORLD.
func (c *Conversation) barrier() {
	reply := "cmd=barrier_out\n"
	if group, given := c.fields.Find("group"); given {
		name, tag, _ := bytes.Cut(group, []byte(":"))
		if n, err := strconv.Atoi(string(tag)); err != nil || n < 0 {
			tag = []byte("0")
		}
		if string(name) != "WORLD" {
			c.AppendReply("cmd=barrier_out rc=-1 tag=" + string(tag) + " msg=unsupported_group\n")
			return
		}
		reply = "cmd=barrier_out rc=0 tag=" + string(tag) + "\n"
	}
	c.Session.Fence(func() []byte { return []byte(reply) })
}

// finalize handles the request finalize. The connection stays open, because the next program of a shell
// script inherits the descriptor and sends init on it.
func (c *Conversation) finalize() {
	c.Session.Finalize()
	c.AppendReply("cmd=finalize_ack rc=0\n")
}

// abort handles the request abort, which has no reply. Further input is ignored. It may be the rest of a
// message of several lines, or come from a program that continues after MPI_Abort (pmi-wire.md 6.3).
func (c *Conversation) abort() {
	code, ok := c.fields.Number("exitcode")
	if !ok {
		code, ok = c.fields.Number("exit_code")
	}
	if !ok {
		code = 1
	}
	message, given := c.fields.Find("message")
	if !given {
		message = c.fields.Text("error_msg")
	}
	c.Session.Abort(code, string(message))
}

func (c *Conversation) createKVS()  { c.AppendReply("cmd=newkvs rc=-1\n") }
func (c *Conversation) destroyKVS() { c.refuse("kvs_destroyed", "unsupported") }

// getByIndex handles the request getbyidx, which a client uses to iterate over the keys. The list of keys is kept as it
// was when the client requested index 0.
func (c *Conversation) getByIndex() {
	index, ok := c.fields.Number("idx")
	switch {
	case c.isOtherKVS():
		c.refuse("getbyidx_results", "unknown_kvsname")
		return
	case !ok:
		c.refuse("getbyidx_results", "missing_idx")
		return
	case index == 0 || c.indexedKeys == nil:
		c.indexedKeys = c.Keys.Keys()
	}
	if index < 0 || index >= len(c.indexedKeys) {
		c.AppendReply("cmd=getbyidx_results rc=-1 reason=no_more_keyvals\n")
		return
	}
	key := c.indexedKeys[index]
	value, _ := c.Keys.Get([]byte(key))
	c.AppendReply("cmd=getbyidx_results rc=0 nextidx=")
	c.AppendReplyNumber(index + 1)
	c.AppendReply(" key=" + key + " val=" + string(value) + "\n")
}

// ranks2hosts handles the request get_ranks2hosts, which only Intel MPI 2018 and older versions send. The reply has two
// lines without cmd=. The first line contains the length of the second line plus 1 (pmi-wire.md 2.9).
func (c *Conversation) ranks2hosts() {
	nodes, of, err := c.Session.Hosts()
	if err != nil {
		c.refuse("get_ranks2hosts", pmiversion.ErrorWord(err))
		return
	}
	lists := make([][]byte, len(nodes))
	for rank, i := range of {
		if i < len(lists) {
			lists[i] = append(strconv.AppendInt(lists[i], int64(rank), 10), ',')
		}
	}
	var table []byte
	for i, name := range nodes {
		table = fmt.Appendf(table, "%d %s %s ", len(name), name, lists[i])
	}
	table = append(table, '\n')
	c.AppendReply("put_ranks2hosts ")
	c.AppendReplyNumber(len(table) + 1)
	c.AppendReply(" ")
	c.AppendReplyNumber(len(nodes))
	c.AppendReply("\n" + string(table))
}

// executionProblem handles the request that ParaStation's helper sends when exec has failed. It only prints
// a message, because the exit status also shows the failure.
func (c *Conversation) executionProblem() {
	c.Session.Note("the program could not be executed: " + transcript.Escape(c.fields.Text("reason")))
}

// ParseGreeting parses the first line of a client that connects through PMI_PORT. The line is an initack with the
// PMI_ID, or the init of PMI-2.
func ParseGreeting(line []byte) pmiversion.Greeting {
	var f pmiversion.Fields
	Parse(&f, line, nil)
	version, _ := f.Number("pmi_version")
	switch name := string(f.Text("cmd")); {
	case name == "initack":
		id, ok := f.Number("pmiid")
		return pmiversion.Greeting{HasID: ok, ID: id, Reply: "cmd=initack rc=-1\n"}
	case name == "init" && version == 2:
		return pmiversion.Greeting{WantsPMI2: true, Reply: switchReply}
	case name == "init":
		return pmiversion.Greeting{Reply: wrongVersionReply}
	}
	return pmiversion.Greeting{}
}
