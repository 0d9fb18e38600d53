// Package pmi2 is PMI-2, to which a client may go on from PMI-1: frames of a length and a body
// "cmd=NAME;key=value;...". The protocol is in pmi-wire.md of the specification, as are the
// sections that comments name.
package pmi2

import (
	"bytes"
	"strconv"

	"remshell/pmiserver/kvs"
	"remshell/pmiserver/pmiversion"
)

// The codes of pmi-wire.md 4.8 that we answer with; clients look for 0 only.
const (
	rcInit     = 1
	rcArgument = 3
	rcKey      = 4
	rcKeyLen   = 5
	rcValueLen = 7
	rcOther    = 14
)

// A requestRule says how a command is understood.
type requestRule struct {
	required   []string // fields without which it is refused
	beforeInit bool     // also before init
	handle     func(*Conversation)
}

// requests lists what a PMI-2 client may say, in the order of pmi-wire.md 4.4.
// The answer to NAME is NAME-response.
var requests = map[string]requestRule{
	"fullinit":         {beforeInit: true, handle: (*Conversation).fullInit},
	"finalize":         {handle: (*Conversation).finalize},
	"abort":            {beforeInit: true, handle: (*Conversation).abort},
	"job-getid":        {handle: (*Conversation).jobID},
	"job-connect":      {handle: (*Conversation).jobConnect},
	"job-disconnect":   {handle: (*Conversation).jobDisconnect},
	"info-getjobattr":  {required: []string{"key"}, handle: (*Conversation).jobAttr},
	"info-putnodeattr": {required: []string{"key", "value"}, handle: (*Conversation).putNodeAttr},
	"info-getnodeattr": {required: []string{"key"}, handle: (*Conversation).getNodeAttr},
	"kvs-put":          {required: []string{"key", "value"}, handle: (*Conversation).put},
	"kvs-get":          {required: []string{"key"}, handle: (*Conversation).get},
	"kvs-fence":        {handle: (*Conversation).fence},
	"spawn":            {required: []string{"ncmds"}, handle: (*Conversation).spawn},
	"name-publish":     {required: []string{"name", "port"}, handle: (*Conversation).publish},
	"name-lookup":      {required: []string{"name"}, handle: (*Conversation).lookup},
	"name-unpublish":   {required: []string{"name"}, handle: (*Conversation).unpublish},
	"ring":             {required: []string{"ring-left", "ring-right"}, handle: (*Conversation).ring},
}

// A Conversation is what one rank says in PMI-2.
type Conversation struct {
	*pmiversion.Rank
	nodeAttrs    *NodeAttrs
	waits        int               // for node attributes; guarded by attrs.mu
	fields       pmiversion.Fields // of the request being answered
	name         []byte            // of that
	paddingBytes int               // bytes after every body, which its length counts
	replyStart   int               // where in the answers the one under way begins
}

// New returns the conversation of a rank that has said nothing yet. attrs are those of its
// group on the node.
func New(r *pmiversion.Rank, attrs *NodeAttrs) *Conversation {
	return &Conversation{Rank: r, nodeAttrs: attrs}
}

// HandleFrame carries out the request in the body of a frame, which it changes.
func (c *Conversation) HandleFrame(body []byte) {
	body = c.stripPadding(body)
	Parse(&c.fields, body)
	c.name = c.fields.Text("cmd")
	req, known := requests[string(c.name)]
	switch {
	case !known:
		c.name = []byte(c.NoteUnknown(c.name))
		c.refuse(rcOther, "unknown_command")
		return
	case !c.Inited && !req.beforeInit:
		c.refuse(rcInit, "not_initialized")
		return
	}
	for _, key := range req.required {
		if _, found := c.fields.Find(key); !found {
			c.refuse(rcArgument, "missing_"+key)
			return
		}
	}
	req.handle(c)
}

// stripPadding takes off what the client of MPICH 3.3 to 4.0 adds to each body: six
// bytes of its buffer, counted in the length. It is known by its fullinit, which
// ends in threaded=... but for them (pmi-wire.md 4.1).
func (c *Conversation) stripPadding(body []byte) []byte {
	const extra = 6
	if head := body[:max(0, len(body)-extra)]; bytes.HasPrefix(body, []byte("cmd=fullinit;")) {
		c.paddingBytes = 0
		if bytes.HasSuffix(head, []byte("threaded=TRUE;")) || bytes.HasSuffix(head, []byte("threaded=FALSE;")) {
			c.paddingBytes = extra
		}
	}
	return body[:max(0, len(body)-c.paddingBytes)]
}

// beginReply begins an answer: its length is filled in by shut. A request with a thrid
// has it echoed, for some clients find the waiting thread by it.
func (c *Conversation) beginReply(rc int) {
	c.beginReplyHead()
	c.AppendReply("rc=")
	c.AppendReplyNumber(rc)
	c.AppendReply(";")
}

func (c *Conversation) beginReplyHead() {
	c.replyStart = len(c.Replies)
	c.AppendReply("      cmd=")
	c.Replies = append(c.Replies, c.name...)
	c.AppendReply("-response;")
	if thrid, given := c.fields.Find("thrid"); given {
		c.addField("thrid", thrid)
	}
}

// addField adds a field; a semicolon in the value is doubled.
func (c *Conversation) addField(key string, value []byte) {
	c.AppendReply(key)
	c.AppendReply("=")
	c.Replies = appendEscaped(c.Replies, value)
	c.AppendReply(";")
}

func (c *Conversation) addNumberField(key string, n int) {
	c.AppendReply(key)
	c.AppendReply("=")
	c.AppendReplyNumber(n)
	c.AppendReply(";")
}

// endReply ends an answer.
func (c *Conversation) endReply() { putLength(c.Replies[c.replyStart:]) }

// takeReply takes back the answer under way. Who completes it later puts the length in.
func (c *Conversation) takeReply() []byte {
	answer := bytes.Clone(c.Replies[c.replyStart:])
	c.Replies = c.Replies[:c.replyStart]
	return answer
}

// replyOK answers that all went well.
func (c *Conversation) replyOK() {
	c.beginReply(0)
	c.endReply()
}

// refuse answers that a request failed; reason is of [a-z0-9_].
func (c *Conversation) refuse(rc int, reason string) {
	c.beginReply(rc)
	c.AppendReply("errmsg=" + reason + ";")
	c.endReply()
}

// replyValue answers with a value, or that there is none. Only this form of a miss
// is none of an error to all clients.
func (c *Conversation) replyValue(value []byte) {
	if len(value) > 0 {
		c.replyFound(value)
		return
	}
	c.beginReply(0)
	c.AppendReply("found=FALSE;")
	c.endReply()
}

// replyFound answers with a value, which may be empty.
func (c *Conversation) replyFound(value []byte) {
	c.beginReply(0)
	c.AppendReply("found=TRUE;")
	c.addField("value", value)
	c.endReply()
}

// fullInit is the init of PMI-2. The rank is that of the connection, whatever
// the client believes. A client is a spawned one if it is told of a spawner.
func (c *Conversation) fullInit() {
	rank, given := c.fields.Number("pmirank")
	if !given {
		rank, given = c.fields.Number("srcid")
	}
	if given && rank != c.ID {
		c.Server.Note("says in fullinit that it is rank " + strconv.Itoa(rank))
	}
	c.Server.Init()
	c.beginReply(0)
	c.AppendReply("pmi-version=2;pmi-subversion=0;")
	c.addNumberField("rank", c.Number)
	c.addNumberField("size", c.Size)
	c.addNumberField("appnum", c.App)
	c.AppendReply("debugged=FALSE;pmiverbose=FALSE;")
	if c.Parent != "" {
		c.AppendReply("spawner-jobid=" + c.Parent + ";")
	}
	c.endReply()
}

func (c *Conversation) finalize() {
	c.Server.Finalize()
	c.replyOK()
}

func (c *Conversation) abort() {
	code, ok := c.fields.Number("exitcode")
	if !ok {
		code = 1
	}
	message, given := c.fields.Find("message")
	if !given {
		message = c.fields.Text("msg")
	}
	c.Server.Abort(code, string(message))
}

func (c *Conversation) jobID() {
	c.beginReply(0)
	c.AppendReply("jobid=" + c.Group + ";")
	c.endReply()
}

func (c *Conversation) jobConnect() {
	c.beginReply(0)
	c.AppendReply("kvscopy=FALSE;")
	c.endReply()
}

func (c *Conversation) jobDisconnect() { c.replyOK() }

// deadKey is the key of the ranks that have failed while the others go on.
const deadKey = "PMI_dead_processes"

func (c *Conversation) jobAttr() {
	switch key := c.fields.Text("key"); {
	case string(key) == "PMI_process_mapping":
		c.replyValue(c.Mapping)
	case string(key) == deadKey:
		c.replyFound([]byte(c.Server.DeadRanks()))
	case string(key) == "universeSize" && c.Universe > 0:
		c.replyValue(strconv.AppendInt(nil, int64(c.Universe), 10))
	default:
		c.replyValue(nil)
	}
}

// isOtherJob reports whether a request means another group's keys than ours.
func (c *Conversation) isOtherJob() bool {
	job := c.fields.Text("jobid")
	return len(job) > 0 && string(job) != c.Group
}

// readPut returns the key and the value of a put, or refuses it.
func (c *Conversation) readPut() (key, value []byte, ok bool) {
	key, value = c.fields.Text("key"), c.fields.Text("value")
	switch {
	case len(key) == 0 || len(key) > kvs.MaxKey:
		c.refuse(rcKeyLen, "invalid_key")
	case bytes.HasPrefix(key, []byte("PMI_")):
		c.refuse(rcKey, "reserved_key")
	case len(value) > kvs.MaxValue:
		c.refuse(rcValueLen, "value_too_long")
	default:
		return key, value, true
	}
	return nil, nil, false
}

func (c *Conversation) put() {
	key, value, ok := c.readPut()
	switch {
	case !ok:
	case c.isOtherJob():
		c.refuse(rcArgument, "unknown_jobid")
	case !c.Keys.Put(key, value):
		c.refuse(rcOther, "kvs_full")
	default:
		c.replyOK()
	}
}

func (c *Conversation) get() {
	if c.isOtherJob() {
		c.refuse(rcArgument, "unknown_jobid")
		return
	}
	key := c.fields.Text("key")
	if string(key) == deadKey { // MPICH asks for it as a key, newer Hydra answers to both
		c.replyFound([]byte(c.Server.DeadRanks()))
		return
	}
	value, _ := c.Keys.Get(key)
	c.replyValue(value)
}

// fence is the barrier of PMI-2. Answering late, when all are in, suits every
// client; a get then never waits (pmi-wire.md 4.4).
func (c *Conversation) fence() {
	c.beginReply(0)
	c.endReply()
	reply := c.takeReply()
	c.Server.Fence(func() []byte { return reply })
}

// ParseGreeting reads the body of the first frame, fullinit, in which a client without a descriptor
// has its PMI_ID where others have their rank.
func ParseGreeting(body []byte) pmiversion.Greeting {
	var f pmiversion.Fields
	Parse(&f, bytes.Clone(body)) // which changes it
	if string(f.Text("cmd")) != "fullinit" {
		return pmiversion.Greeting{}
	}
	key := "pmirank"
	if _, given := f.Find(key); !given {
		key = "srcid"
	}
	id, ok := f.Number(key)
	return pmiversion.Greeting{HasID: ok, ID: id, Reply: "    48cmd=fullinit-response;rc=14;errmsg=unknown_rank;"}
}
