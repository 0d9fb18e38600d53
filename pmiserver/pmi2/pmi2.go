// Package pmi2 is PMI-2, to which a client may go on from PMI-1: frames of a length and a body
// "cmd=NAME;key=value;...". The protocol is in pmi-wire.md of the specification, as are the
// sections that comments name.
package pmi2

import (
	"bytes"
	"strconv"

	"remshell/pmiserver/dialect"
	"remshell/pmiserver/kvs"
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

// A requestForm says how a command is understood.
type requestForm struct {
	needs []string // fields without which it is refused
	early bool     // also before init
	do    func(*Conversation)
}

// requests lists what a PMI-2 client may say, in the order of pmi-wire.md 4.4.
// The answer to NAME is NAME-response.
var requests = map[string]requestForm{
	"fullinit":         {early: true, do: (*Conversation).fullInit},
	"finalize":         {do: (*Conversation).finalize},
	"abort":            {early: true, do: (*Conversation).abort},
	"job-getid":        {do: (*Conversation).jobID},
	"job-connect":      {do: (*Conversation).jobConnect},
	"job-disconnect":   {do: (*Conversation).jobDisconnect},
	"info-getjobattr":  {needs: []string{"key"}, do: (*Conversation).jobAttr},
	"info-putnodeattr": {needs: []string{"key", "value"}, do: (*Conversation).putNodeAttr},
	"info-getnodeattr": {needs: []string{"key"}, do: (*Conversation).nodeAttr},
	"kvs-put":          {needs: []string{"key", "value"}, do: (*Conversation).put},
	"kvs-get":          {needs: []string{"key"}, do: (*Conversation).get},
	"kvs-fence":        {do: (*Conversation).fence},
	"spawn":            {needs: []string{"ncmds"}, do: (*Conversation).spawn},
	"name-publish":     {needs: []string{"name", "port"}, do: (*Conversation).publish},
	"name-lookup":      {needs: []string{"name"}, do: (*Conversation).lookup},
	"name-unpublish":   {needs: []string{"name"}, do: (*Conversation).unpublish},
	"ring":             {needs: []string{"ring-left", "ring-right"}, do: (*Conversation).ring},
}

// A Conversation is what one rank says in PMI-2.
type Conversation struct {
	*dialect.Rank
	attrs   *Attrs
	waits   int            // for node attributes; guarded by attrs.mu
	fields  dialect.Fields // of the request being answered
	name    []byte         // of that
	garbage int            // bytes after every body, which its length counts
	mark    int            // where in the answers the one under way begins
}

// New returns the conversation of a rank that has said nothing yet. attrs are those of its
// group on the node.
func New(r *dialect.Rank, attrs *Attrs) *Conversation { return &Conversation{Rank: r, attrs: attrs} }

// Hear carries out the request in the body of a frame, which it changes.
func (c *Conversation) Hear(body []byte) {
	body = c.strip(body)
	Parse(&c.fields, body)
	c.name = c.fields.Text("cmd")
	req, known := requests[string(c.name)]
	switch {
	case !known:
		c.name = []byte(c.Unknown(c.name))
		c.refuse(rcOther, "unknown_command")
		return
	case !c.Inited && !req.early:
		c.refuse(rcInit, "not_initialized")
		return
	}
	for _, key := range req.needs {
		if _, found := c.fields.Find(key); !found {
			c.refuse(rcArgument, "missing_"+key)
			return
		}
	}
	req.do(c)
}

// strip takes off what the client of MPICH 3.3 to 4.0 adds to each body: six
// bytes of its buffer, counted in the length. It is known by its fullinit, which
// ends in threaded=... but for them (pmi-wire.md 4.1).
func (c *Conversation) strip(body []byte) []byte {
	const extra = 6
	if head := body[:max(0, len(body)-extra)]; bytes.HasPrefix(body, []byte("cmd=fullinit;")) {
		c.garbage = 0
		if bytes.HasSuffix(head, []byte("threaded=TRUE;")) || bytes.HasSuffix(head, []byte("threaded=FALSE;")) {
			c.garbage = extra
		}
	}
	return body[:max(0, len(body)-c.garbage)]
}

// open begins an answer: its length is filled in by shut. A request with a thrid
// has it echoed, for some clients find the waiting thread by it.
func (c *Conversation) open(rc int) {
	c.head()
	c.Say("rc=")
	c.SayNumber(rc)
	c.Say(";")
}

func (c *Conversation) head() {
	c.mark = len(c.Answers)
	c.Say("      cmd=")
	c.Answers = append(c.Answers, c.name...)
	c.Say("-response;")
	if thrid, given := c.fields.Find("thrid"); given {
		c.with("thrid", thrid)
	}
}

// with adds a field; a semicolon in the value is doubled.
func (c *Conversation) with(key string, value []byte) {
	c.Say(key)
	c.Say("=")
	c.Answers = appendEscaped(c.Answers, value)
	c.Say(";")
}

func (c *Conversation) withNumber(key string, n int) {
	c.Say(key)
	c.Say("=")
	c.SayNumber(n)
	c.Say(";")
}

// shut ends an answer.
func (c *Conversation) shut() { putLength(c.Answers[c.mark:]) }

// taken takes back the answer under way. Who completes it later puts the length in.
func (c *Conversation) taken() []byte {
	answer := bytes.Clone(c.Answers[c.mark:])
	c.Answers = c.Answers[:c.mark]
	return answer
}

// done answers that all went well.
func (c *Conversation) done() {
	c.open(0)
	c.shut()
}

// refuse answers that a request failed; reason is of [a-z0-9_].
func (c *Conversation) refuse(rc int, reason string) {
	c.open(rc)
	c.Say("errmsg=" + reason + ";")
	c.shut()
}

// value answers with a value, or that there is none. Only this form of a miss
// is none of an error to all clients.
func (c *Conversation) value(value []byte) {
	if len(value) > 0 {
		c.found(value)
		return
	}
	c.open(0)
	c.Say("found=FALSE;")
	c.shut()
}

// found answers with a value, which may be empty.
func (c *Conversation) found(value []byte) {
	c.open(0)
	c.Say("found=TRUE;")
	c.with("value", value)
	c.shut()
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
	c.open(0)
	c.Say("pmi-version=2;pmi-subversion=0;")
	c.withNumber("rank", c.Number)
	c.withNumber("size", c.Size)
	c.withNumber("appnum", c.App)
	c.Say("debugged=FALSE;pmiverbose=FALSE;")
	if c.Parent != "" {
		c.Say("spawner-jobid=" + c.Parent + ";")
	}
	c.shut()
}

func (c *Conversation) finalize() {
	c.Server.Finalize()
	c.done()
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
	c.open(0)
	c.Say("jobid=" + c.Group + ";")
	c.shut()
}

func (c *Conversation) jobConnect() {
	c.open(0)
	c.Say("kvscopy=FALSE;")
	c.shut()
}

func (c *Conversation) jobDisconnect() { c.done() }

// deadKey is the key of the ranks that have failed while the others go on.
const deadKey = "PMI_dead_processes"

func (c *Conversation) jobAttr() {
	switch key := c.fields.Text("key"); {
	case string(key) == "PMI_process_mapping":
		c.value(c.Mapping)
	case string(key) == deadKey:
		c.found([]byte(c.Server.Dead()))
	case string(key) == "universeSize" && c.Universe > 0:
		c.value(strconv.AppendInt(nil, int64(c.Universe), 10))
	default:
		c.value(nil)
	}
}

// foreign reports whether a request means another group's keys than ours.
func (c *Conversation) foreign() bool {
	job := c.fields.Text("jobid")
	return len(job) > 0 && string(job) != c.Group
}

// pair returns the key and the value of a put, or refuses it.
func (c *Conversation) pair() (key, value []byte, ok bool) {
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
	key, value, ok := c.pair()
	switch {
	case !ok:
	case c.foreign():
		c.refuse(rcArgument, "unknown_jobid")
	case !c.Keys.Put(key, value):
		c.refuse(rcOther, "kvs_full")
	default:
		c.done()
	}
}

func (c *Conversation) get() {
	if c.foreign() {
		c.refuse(rcArgument, "unknown_jobid")
		return
	}
	key := c.fields.Text("key")
	if string(key) == deadKey { // MPICH asks for it as a key, newer Hydra answers to both
		c.found([]byte(c.Server.Dead()))
		return
	}
	value, _ := c.Keys.Get(key)
	c.value(value)
}

// fence is the barrier of PMI-2. Answering late, when all are in, suits every
// client; a get then never waits (pmi-wire.md 4.4).
func (c *Conversation) fence() {
	c.open(0)
	c.shut()
	reply := c.taken()
	c.Server.Fence(func() []byte { return reply })
}

// Greet reads the body of the first frame, fullinit, in which a client without a descriptor
// has its PMI_ID where others have their rank.
func Greet(body []byte) dialect.Greeting {
	var f dialect.Fields
	Parse(&f, bytes.Clone(body)) // which changes it
	if string(f.Text("cmd")) != "fullinit" {
		return dialect.Greeting{}
	}
	key := "pmirank"
	if _, given := f.Find(key); !given {
		key = "srcid"
	}
	id, ok := f.Number(key)
	return dialect.Greeting{Named: ok, ID: id, Answer: "    48cmd=fullinit-response;rc=14;errmsg=unknown_rank;"}
}
