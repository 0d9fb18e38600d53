// Package pmi2 implements PMI-2, to which a client may switch from PMI-1. A message is a frame: a length and a body
// "cmd=NAME;key=value;...". pmi-wire.md of the specification describes the protocol. Section numbers in comments refer
// to pmi-wire.md.
package pmi2

import (
	"bytes"
	"strconv"

	"remshell/pmiserver/kvs"
	"remshell/pmiserver/pmiversion"
)

// These are the result codes of pmi-wire.md 4.8. Clients only test whether the code is 0.
const (
	rcInit     = 1
	rcArgument = 3
	rcKey      = 4
	rcKeyLen   = 5
	rcValueLen = 7
	rcOther    = 14
)

// A requestRule describes a PMI-2 request.
type requestRule struct {
	required   []string // fields that must be present
	beforeInit bool     // also allowed before init
	handle     func(*Conversation)
}

// requests lists the requests of PMI-2 by name, in the order of pmi-wire.md 4.4. The reply to NAME is called
// NAME-response.
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

// A Conversation handles the PMI-2 requests of one rank, after the rank has switched from PMI-1 to PMI-2.
type Conversation struct {
	*pmiversion.Rank
	nodeAttrs    *NodeAttrs
	waits        int               // number of node attributes it waits for; guarded by nodeAttrs.mu
	fields       pmiversion.Fields // the fields of the current request
	name         []byte            // the name of the current request
	paddingBytes int               // bytes after every body, which its length counts
	replyStart   int               // start of the current reply in Replies
}

// New returns the conversation of a rank that has sent no PMI-2 request yet. attrs are the node attributes of the
// rank's group on this node.
func New(r *pmiversion.Rank, attrs *NodeAttrs) *Conversation {
	return &Conversation{Rank: r, nodeAttrs: attrs}
}

// HandleFrame handles the request in the body of a frame. It may change body.
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

// stripPadding removes padding that the client of MPICH 3.3 to 4.0 adds to each body. The padding consists of
// six bytes, which the length includes. Such a client is recognized by its fullinit, in which padding follows
// threaded=... (pmi-wire.md 4.1).
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

// beginReply begins a reply. endReply fills in its length. If the request has a field thrid, the reply
// contains the same field, because some clients use it to find the thread that waits.
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

// addField appends a field to the reply. Semicolons in the value are doubled.
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

// endReply writes the length of the current reply into its head.
func (c *Conversation) endReply() { putLength(c.Replies[c.replyStart:]) }

// takeReply removes the current reply from Replies and returns it. The caller completes the reply later, and
// calls putLength.
func (c *Conversation) takeReply() []byte {
	answer := bytes.Clone(c.Replies[c.replyStart:])
	c.Replies = c.Replies[:c.replyStart]
	return answer
}

// replyOK replies with success and no values.
func (c *Conversation) replyOK() {
	c.beginReply(0)
	c.endReply()
}

// refuse replies with an error, because a request has failed. reason must match [a-z0-9_]*.
func (c *Conversation) refuse(rc int, reason string) {
	c.beginReply(rc)
	c.AppendReply("errmsg=" + reason + ";")
	c.endReply()
}

// replyValue replies with a value, or with found=FALSE if the value is empty. All clients understand found=FALSE, but
// some clients treat any other form of "not found" as an error.
func (c *Conversation) replyValue(value []byte) {
	if len(value) > 0 {
		c.replyFound(value)
		return
	}
	c.beginReply(0)
	c.AppendReply("found=FALSE;")
	c.endReply()
}

// replyFound replies with a value, which may be empty.
func (c *Conversation) replyFound(value []byte) {
	c.beginReply(0)
	c.AppendReply("found=TRUE;")
	c.addField("value", value)
	c.endReply()
}

// fullInit handles fullinit, the init request of PMI-2. The rank is known from the connection, so the rank
// that the client names is ignored. A field spawner-jobid in the reply tells the client that its group was
// spawned.
func (c *Conversation) fullInit() {
	rank, given := c.fields.Number("pmirank")
	if !given {
		rank, given = c.fields.Number("srcid")
	}
	if given && rank != c.ID {
		c.Session.Note("the rank sent the wrong rank number " + strconv.Itoa(rank) + " in its PMI-2 command fullinit")
	}
	c.Session.Init()
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
	c.Session.Finalize()
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
	c.Session.Abort(code, string(message))
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

// deadKey is the key that MPICH uses to request the list of failed ranks.
const deadKey = "PMI_dead_processes"

func (c *Conversation) jobAttr() {
	switch key := c.fields.Text("key"); {
	case string(key) == "PMI_process_mapping":
		c.replyValue(c.Mapping)
	case string(key) == deadKey:
		c.replyFound([]byte(c.Session.DeadRanks()))
	case string(key) == "universeSize" && c.Universe > 0:
		c.replyValue(strconv.AppendInt(nil, int64(c.Universe), 10))
	default:
		c.replyValue(nil)
	}
}

// isOtherJob reports whether the request names a group other than the rank's own.
func (c *Conversation) isOtherJob() bool {
	job := c.fields.Text("jobid")
	return len(job) > 0 && string(job) != c.Group
}

// readPut returns the key and the value of a put. If they are not valid, it refuses the request, and ok is
// false.
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
	if string(key) == deadKey { // MPICH asks for it as a key; newer Hydra answers both forms
		c.replyFound([]byte(c.Session.DeadRanks()))
		return
	}
	value, _ := c.Keys.Get(key)
	c.replyValue(value)
}

// fence handles kvs-fence, the barrier of PMI-2. The reply is sent when all ranks have entered, so that no
// get has to wait (pmi-wire.md 4.4).
func (c *Conversation) fence() {
	c.beginReply(0)
	c.endReply()
	reply := c.takeReply()
	c.Session.Fence(func() []byte { return reply })
}

// ParseGreeting parses the body of the first frame of a client that connects through PMI_PORT. The frame is a fullinit
// with the PMI_ID in place of the rank.
func ParseGreeting(body []byte) pmiversion.Greeting {
	var f pmiversion.Fields
	Parse(&f, bytes.Clone(body)) // Parse changes its argument
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
