package pmiserver

import (
	"bytes"
	"slices"
	"strconv"
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

// requests2 lists what a PMI-2 client may say, in the order of pmi-wire.md 4.4.
// The answer to NAME is NAME-response.
var requests2 = map[string]request{
	"fullinit":         {early: true, do: (*session).fullInit},
	"finalize":         {do: (*session).finalize2},
	"abort":            {early: true, do: (*session).abort2},
	"job-getid":        {do: (*session).jobID},
	"job-connect":      {do: (*session).jobConnect},
	"job-disconnect":   {do: (*session).jobDisconnect},
	"info-getjobattr":  {needs: []string{"key"}, do: (*session).jobAttr},
	"info-putnodeattr": {needs: []string{"key", "value"}, do: (*session).putNodeAttr},
	"info-getnodeattr": {needs: []string{"key"}, do: (*session).nodeAttr},
	"kvs-put":          {needs: []string{"key", "value"}, do: (*session).put2},
	"kvs-get":          {needs: []string{"key"}, do: (*session).get2},
	"kvs-fence":        {do: (*session).fence2},
	"spawn":            {needs: []string{"ncmds"}, do: (*session).spawn2},
	"name-publish":     {needs: []string{"name", "port"}, do: (*session).publish2},
	"name-lookup":      {needs: []string{"name"}, do: (*session).lookup2},
	"name-unpublish":   {needs: []string{"name"}, do: (*session).unpublish2},
	"ring":             {needs: []string{"ring-left", "ring-right"}, do: (*session).ring},
}

// A dialect2 is what a session knows when it speaks PMI-2.
type dialect2 struct {
	name    []byte // of the request being answered
	garbage int    // bytes after every body, which its length counts
	mark    int    // where in the answers the one under way begins
}

// answer2 carries out one request.
func (c *session) answer2(body []byte) {
	body = c.strip(body)
	c.args.parse2(body)
	c.two.name = c.args.text("cmd")
	req, known := requests2[string(c.two.name)]
	switch {
	case !known:
		c.two.name = []byte(c.strange(c.two.name))
		c.refuse2(rcOther, "unknown_command")
		return
	case c.state != Inited && !req.early:
		c.refuse2(rcInit, "not_initialized")
		return
	}
	for _, key := range req.needs {
		if _, found := c.args.find(key); !found {
			c.refuse2(rcArgument, "missing_"+key)
			return
		}
	}
	req.do(c)
}

// strip takes off what the client of MPICH 3.3 to 4.0 adds to each body: six
// bytes of its buffer, counted in the length. It is known by its fullinit, which
// ends in threaded=... but for them (pmi-wire.md 4.1).
func (c *session) strip(body []byte) []byte {
	const extra = 6
	if head := body[:max(0, len(body)-extra)]; bytes.HasPrefix(body, []byte("cmd=fullinit;")) {
		c.two.garbage = 0
		if bytes.HasSuffix(head, []byte("threaded=TRUE;")) || bytes.HasSuffix(head, []byte("threaded=FALSE;")) {
			c.two.garbage = extra
		}
	}
	return body[:max(0, len(body)-c.two.garbage)]
}

// open begins an answer: its length is filled in by shut. A request with a thrid
// has it echoed, for some clients find the waiting thread by it.
func (c *session) open(rc int) {
	c.head()
	c.say("rc=")
	c.sayNumber(rc)
	c.say(";")
}

func (c *session) head() {
	c.two.mark = len(c.answers)
	c.say("      cmd=")
	c.answers = append(c.answers, c.two.name...)
	c.say("-response;")
	if thrid, given := c.args.find("thrid"); given {
		c.with("thrid", thrid)
	}
}

// with adds a field; a semicolon in the value is doubled.
func (c *session) with(key string, value []byte) {
	c.say(key)
	c.say("=")
	c.answers = appendEscaped(c.answers, value)
	c.say(";")
}

func (c *session) withNumber(key string, n int) {
	c.say(key)
	c.say("=")
	c.sayNumber(n)
	c.say(";")
}

// shut ends an answer.
func (c *session) shut() { putLength(c.answers[c.two.mark:]) }

// taken takes back the answer under way. Who completes it later puts the length in.
func (c *session) taken() []byte {
	answer := bytes.Clone(c.answers[c.two.mark:])
	c.answers = c.answers[:c.two.mark]
	return answer
}

// done answers that all went well.
func (c *session) done() {
	c.open(0)
	c.shut()
}

// refuse2 answers that a request failed; reason is of [a-z0-9_].
func (c *session) refuse2(rc int, reason string) {
	c.open(rc)
	c.say("errmsg=" + reason + ";")
	c.shut()
}

// value2 answers with a value, or that there is none. Only this form of a miss
// is none of an error to all clients.
func (c *session) value2(value []byte) {
	c.open(0)
	if len(value) == 0 {
		c.say("found=FALSE;")
	} else {
		c.say("found=TRUE;")
		c.with("value", value)
	}
	c.shut()
}

// putLength writes the length of a frame's body into its first six bytes.
func putLength(frame []byte) {
	n := len(frame) - 6
	for i := 5; i >= 0 && n > 0; i-- {
		frame[i] = byte('0' + n%10)
		n /= 10
	}
}

func appendEscaped(dst, value []byte) []byte {
	for _, b := range value {
		if b == ';' {
			dst = append(dst, ';')
		}
		dst = append(dst, b)
	}
	return dst
}

// fullInit is the init of PMI-2. The rank is that of the connection, whatever
// the client believes. A client is a spawned one if it is told of a spawner.
func (c *session) fullInit() {
	rank, given := c.args.number("pmirank")
	if !given {
		rank, given = c.args.number("srcid")
	}
	if given && rank != c.id {
		c.s.note(c.rank, "says in fullinit that it is rank "+strconv.Itoa(rank))
	}
	c.become(Inited)
	c.open(0)
	c.say("pmi-version=2;pmi-subversion=0;")
	c.withNumber("rank", c.rank)
	c.withNumber("size", c.s.info.Size)
	c.withNumber("appnum", c.app())
	c.say("debugged=FALSE;pmiverbose=FALSE;")
	if c.s.info.Parent != "" {
		c.say("spawner-jobid=" + c.s.info.Parent + ";")
	}
	c.shut()
}

func (c *session) finalize2() {
	c.become(Finalized)
	c.done()
}

func (c *session) abort2() {
	code, ok := c.args.number("exitcode")
	if !ok {
		code = 1
	}
	message, given := c.args.find("message")
	if !given {
		message = c.args.text("msg")
	}
	c.aborted = true
	c.s.abort(c.rank, code, string(message))
}

func (c *session) jobID() {
	c.open(0)
	c.say("jobid=" + c.s.info.Name + ";")
	c.shut()
}

func (c *session) jobConnect() {
	c.open(0)
	c.say("kvscopy=FALSE;")
	c.shut()
}

func (c *session) jobDisconnect() { c.done() }

func (c *session) jobAttr() {
	switch key := c.args.text("key"); {
	case string(key) == "PMI_process_mapping":
		c.value2(c.s.mapping)
	case string(key) == "universeSize" && c.s.info.Universe > 0:
		c.value2(strconv.AppendInt(nil, int64(c.s.info.Universe), 10))
	default:
		c.value2(nil)
	}
}

// foreign2 reports whether a request means another group's keys than ours.
func (c *session) foreign2() bool {
	job := c.args.text("jobid")
	return len(job) > 0 && string(job) != c.s.info.Name
}

// pair returns the key and the value of a put, or refuses it.
func (c *session) pair() (key, value []byte, ok bool) {
	key, value = c.args.text("key"), c.args.text("value")
	switch {
	case len(key) == 0 || len(key) > maxKey:
		c.refuse2(rcKeyLen, "invalid_key")
	case bytes.HasPrefix(key, []byte("PMI_")):
		c.refuse2(rcKey, "reserved_key")
	case len(value) > maxValue:
		c.refuse2(rcValueLen, "value_too_long")
	default:
		return key, value, true
	}
	return nil, nil, false
}

func (c *session) put2() {
	key, value, ok := c.pair()
	switch {
	case !ok:
	case c.foreign2():
		c.refuse2(rcArgument, "unknown_jobid")
	case !c.keep(key, value):
		c.refuse2(rcOther, "kvs_full")
	default:
		c.done()
	}
}

func (c *session) get2() {
	if c.foreign2() {
		c.refuse2(rcArgument, "unknown_jobid")
		return
	}
	value, _ := c.look(c.args.text("key"))
	c.value2(value)
}

// fence2 is the barrier of PMI-2. Answering late, when all are in, suits every
// client; a get then never waits (pmi-wire.md 4.4).
func (c *session) fence2() {
	c.open(0)
	c.shut()
	reply := c.taken()
	c.flush()
	c.enter(always(reply))
}

// nodeAttrs are seen by the ranks of a group on one node, at once.
type nodeAttrs struct {
	values map[string][]byte
	waits  map[string][]wait
}

// A wait is a request for an attribute that is not there yet.
type wait struct {
	c      *session
	answer []byte // a frame but for the value
}

// putNodeAttr stores an attribute, and answers all who wait for it.
func (c *session) putNodeAttr() {
	key, value, ok := c.pair()
	if !ok {
		return
	}
	if c.s.bytes.Load()+int64(len(key)+len(value)+pairCost) > maxStore {
		c.refuse2(rcOther, "kvs_full")
		return
	}
	c.done()
	c.flush()
	for _, w := range c.s.setAttr(key, value) {
		answer := append(appendEscaped(w.answer, value), ';')
		putLength(answer)
		w.c.tell(answer)
	}
}

// setAttr stores an attribute, and returns who waits for it.
func (s *Server) setAttr(key, value []byte) []wait {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attrs.values == nil {
		s.attrs.values = make(map[string][]byte)
	}
	if old, replaced := s.attrs.values[string(key)]; replaced {
		s.bytes.Add(-int64(len(key) + len(old) + pairCost))
	}
	s.bytes.Add(int64(len(key) + len(value) + pairCost))
	s.attrs.values[string(key)] = bytes.Clone(value)
	waits := s.attrs.waits[string(key)]
	delete(s.attrs.waits, string(key))
	for _, w := range waits {
		w.c.waits--
	}
	return waits
}

// nodeAttr answers with an attribute; with wait=TRUE only when there is one.
func (c *session) nodeAttr() {
	key := c.args.text("key")
	waits := bytes.EqualFold(c.args.text("wait"), []byte("TRUE"))
	c.open(0)
	c.say("found=TRUE;value=")
	answer := c.taken()
	c.s.mu.Lock()
	value, found := c.s.attrs.values[string(key)]
	full := c.waits >= maxWaits
	if !found && waits && !full {
		c.waits++
		c.s.attrs.add(string(key), wait{c, answer})
	}
	c.s.mu.Unlock()
	switch {
	case found || !waits:
		c.value2(value)
	case full:
		c.refuse2(rcOther, "too_many_waits")
	}
}

func (a *nodeAttrs) add(key string, w wait) {
	if a.waits == nil {
		a.waits = make(map[string][]wait)
	}
	a.waits[key] = append(a.waits[key], w)
}

// forget drops the requests of a session that has ended.
func (a *nodeAttrs) forget(c *session) {
	for key, waits := range a.waits {
		waits = slices.DeleteFunc(waits, func(w wait) bool { return w.c == c })
		if a.waits[key] = waits; len(waits) == 0 {
			delete(a.waits, key)
		}
	}
}
