package pmiserver

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A request says how a command of PMI-1 is understood (pmi-wire.md 2.2).
type request struct {
	answer string   // the command of the reply
	needs  []string // fields without which it is refused
	tails  []string // fields that may contain spaces, in their order
	early  bool     // also before init
	do     func(*session)
}

// requests lists what a PMI-1 client may say, in the order of pmi-wire.md 2.5
// and 2.9. The mcmd requests are in spawn.go.
var requests = map[string]request{
	"initack":           {answer: "initack", early: true, do: (*session).initack},
	"init":              {answer: "response_to_init", early: true, do: (*session).init},
	"get_maxes":         {answer: "maxes", do: (*session).maxes},
	"get_appnum":        {answer: "appnum", do: (*session).appnum},
	"get_my_kvsname":    {answer: "my_kvsname", do: (*session).name},
	"get_universe_size": {answer: "universe_size", do: (*session).universe},
	"put":               {answer: "put_result", needs: []string{"key", "value"}, tails: []string{"value"}, do: (*session).put},
	"get":               {answer: "get_result", needs: []string{"key"}, do: (*session).get},
	"barrier_in":        {answer: "barrier_out", do: (*session).barrier},
	"finalize":          {answer: "finalize_ack", do: (*session).finalize},
	"abort":             {early: true, tails: []string{"error_msg", "message"}, do: (*session).abort},
	"publish_name":      {answer: "publish_result", needs: []string{"service", "port"}, tails: []string{"service", "port"}, do: (*session).publish},
	"lookup_name":       {answer: "lookup_result", needs: []string{"service"}, tails: []string{"service"}, do: (*session).lookup},
	"unpublish_name":    {answer: "unpublish_result", needs: []string{"service"}, tails: []string{"service"}, do: (*session).unpublish},
	"create_kvs":        {answer: "newkvs", do: (*session).createKVS},
	"destroy_kvs":       {answer: "kvs_destroyed", do: (*session).destroyKVS},
	"getbyidx":          {answer: "getbyidx_results", needs: []string{"idx"}, do: (*session).getByIndex},
	"get_ranks2hosts":   {answer: "get_ranks2hosts", do: (*session).ranks2hosts},
	"execution_problem": {early: true, tails: []string{"reason"}, do: (*session).executionProblem},
}

// answer carries out one request.
func (c *session) answer(line []byte) {
	name := command(line)
	req, known := requests[string(name)]
	if !known {
		c.unknown(name)
		return
	}
	if c.state != Inited && !req.early {
		c.refuse(req.answer, "not_initialized")
		return
	}
	c.args.parse(line, req.tails)
	for _, key := range req.needs {
		if _, found := c.args.find(key); !found {
			c.refuse(req.answer, "missing_"+key)
			return
		}
	}
	req.do(c)
}

// say adds to the answers; it is called with a whole line or with its parts.
func (c *session) say(part string) { c.answers = append(c.answers, part...) }

func (c *session) sayNumber(n int) { c.answers = strconv.AppendInt(c.answers, int64(n), 10) }

// refuse answers that a request failed. reason is of [a-z0-9_].
func (c *session) refuse(answer, reason string) {
	c.say("cmd=" + answer + " rc=-1 msg=" + reason + "\n")
}

// unknown answers a command that is not in the table, because a client waits for
// an answer to whatever it has said.
func (c *session) unknown(name []byte) { c.refuse(c.strange(name), "unknown_command") }

// strange notes an unknown command, once, and returns its name as far as one may
// repeat it.
func (c *session) strange(name []byte) string {
	word := string(name[:min(len(name), 64)])
	odd := func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}
	if word == "" || strings.ContainsFunc(word, odd) {
		word = "unknown"
	}
	if !c.noted {
		c.noted = true
		c.s.note(c.rank, "unknown PMI command: "+Escape(name[:min(len(name), 64)]))
	}
	return word
}

// initack precedes init where a client came in by PMI_PORT; on a descriptor the
// rank is known, and the answer is the same (pmi-wire.md 1.3).
func (c *session) initack() {
	c.say("cmd=initack\ncmd=set size=")
	c.sayNumber(c.s.info.Size)
	c.say("\ncmd=set rank=")
	c.sayNumber(c.rank)
	c.say("\ncmd=set debug=0\n")
}

// init may come again at any time, and changes nothing then. Version 1.1 is
// answered whatever the client's subversion: 1.2 would bring group barriers, and
// crashes of clients that miss a tag (2.10).
func (c *session) init() {
	switch version, _ := c.args.number("pmi_version"); version {
	case 1:
		c.become(Inited)
		c.say("cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n")
	case 2: // the client goes on in PMI-2, with fullinit
		c.in.two = true
		c.say("cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n")
	default:
		c.say("cmd=response_to_init rc=-1 pmi_version=1 pmi_subversion=1\n")
	}
}

// maxes announces even numbers, and a sum that MPICH 3.4 to 4.0 can split; other
// ones crash clients (pmi-wire.md 5).
func (c *session) maxes() { c.say("cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024\n") }

func (c *session) appnum() {
	c.say("cmd=appnum rc=0 appnum=")
	c.sayNumber(c.app())
	c.say("\n")
}

func (c *session) app() int {
	if c.s.info.AppNum == nil {
		return 0
	}
	return c.s.info.AppNum(c.rank)
}

func (c *session) name() { c.say("cmd=my_kvsname rc=0 kvsname=" + c.s.info.Name + "\n") }

func (c *session) universe() {
	size := c.s.info.Universe
	if size <= 0 {
		size = -1 // undefined; MPI then has no attribute MPI_UNIVERSE_SIZE
	}
	c.say("cmd=universe_size rc=0 size=")
	c.sayNumber(size)
	c.say("\n")
}

// foreign reports whether a request means another key-value space than ours.
func (c *session) foreign() bool {
	name, given := c.args.find("kvsname")
	return given && string(name) != c.s.info.Name
}

func (c *session) put() {
	key, value := c.args.text("key"), c.args.text("value")
	switch {
	case c.foreign():
		c.refuse("put_result", "unknown_kvsname")
	case len(key) == 0 || len(key) > maxKey || bytes.IndexByte(key, '=') >= 0:
		c.refuse("put_result", "invalid_key")
	case bytes.HasPrefix(key, []byte("PMI_")):
		c.refuse("put_result", "reserved_key")
	case len(value) > maxValue:
		c.refuse("put_result", "value_too_long")
	case !c.keep(key, value):
		c.refuse("put_result", "kvs_full")
	default:
		c.say("cmd=put_result rc=0\n")
	}
}

// get is what clients ask most: the square of their number. It allocates
// nothing. An empty value is a miss: old clients fail over it (2.5).
func (c *session) get() {
	if c.foreign() {
		c.refuse("get_result", "unknown_kvsname")
		return
	}
	key := c.args.text("key")
	value, _ := c.look(key)
	if string(key) == "PMI_process_mapping" {
		value = c.s.mapping
	}
	if len(value) == 0 {
		c.say("cmd=get_result rc=-1 msg=key_not_found\n")
		return
	}
	c.say("cmd=get_result rc=0 value=")
	c.answers = append(c.answers, value...)
	c.say("\n")
}

// barrier is answered when all ranks of the group are in. A client that asks for
// a barrier of a group, which 1.1 does not have, gets one if all ranks are meant.
func (c *session) barrier() {
	reply := "cmd=barrier_out\n"
	if group, given := c.args.find("group"); given {
		name, tag, _ := bytes.Cut(group, []byte(":"))
		if n, err := strconv.Atoi(string(tag)); err != nil || n < 0 {
			tag = []byte("0")
		}
		if string(name) != "WORLD" {
			c.say("cmd=barrier_out rc=-1 tag=" + string(tag) + " msg=unsupported_group\n")
			return
		}
		reply = "cmd=barrier_out rc=0 tag=" + string(tag) + "\n"
	}
	// The answers so far are due before the one that this may bring about.
	c.flush()
	c.enter(always([]byte(reply)))
}

// finalize leaves the connection open: the next program of a shell script has
// the same descriptor, and says init on it.
func (c *session) finalize() {
	c.become(Finalized)
	c.say("cmd=finalize_ack rc=0\n")
}

// abort has no answer. What follows on the connection is the rest of a message
// of several lines, or a program that goes on after MPI_Abort (6.3).
func (c *session) abort() {
	code, ok := c.args.number("exitcode")
	if !ok {
		code, ok = c.args.number("exit_code")
	}
	if !ok {
		code = 1
	}
	message, given := c.args.find("message")
	if !given {
		message = c.args.text("error_msg")
	}
	c.aborted = true
	c.s.abort(c.rank, code, string(message))
}

func (c *session) createKVS()  { c.say("cmd=newkvs rc=-1\n") }
func (c *session) destroyKVS() { c.refuse("kvs_destroyed", "unsupported") }

// getByIndex counts through the keys as they were when the client began.
func (c *session) getByIndex() {
	index, ok := c.args.number("idx")
	switch {
	case c.foreign():
		c.refuse("getbyidx_results", "unknown_kvsname")
		return
	case !ok:
		c.refuse("getbyidx_results", "missing_idx")
		return
	case index == 0 || c.keys == nil:
		c.keys = c.allKeys()
	}
	if index < 0 || index >= len(c.keys) {
		c.say("cmd=getbyidx_results rc=-1 reason=no_more_keyvals\n")
		return
	}
	key := c.keys[index]
	value, _ := c.look([]byte(key))
	c.say("cmd=getbyidx_results rc=0 nextidx=")
	c.sayNumber(index + 1)
	c.say(" key=" + key + " val=" + string(value) + "\n")
}

// allKeys lists the keys a rank sees that have a value, sorted.
func (c *session) allKeys() []string {
	all := make(map[string]bool)
	add := func(key []byte) {
		if value, _ := c.look(key); len(value) > 0 {
			all[string(key)] = true
		}
	}
	for _, l := range c.s.snap.Load().layers {
		for key := range l.all() {
			add(key)
		}
	}
	for key := range c.own.handed {
		add([]byte(key))
	}
	for key := range c.own.fresh {
		add([]byte(key))
	}
	return slices.Sorted(maps.Keys(all))
}

// ranks2hosts answers in a form of its own, two lines without cmd=; the first
// counts the bytes of the second, and one more (2.9).
func (c *session) ranks2hosts() {
	if c.s.Hosts == nil {
		c.refuse("get_ranks2hosts", "unsupported")
		return
	}
	hosts, err := c.s.Hosts(c.ctx)
	if err != nil {
		c.refuse("get_ranks2hosts", word(err))
		return
	}
	var table []byte
	for _, h := range hosts {
		table = strconv.AppendInt(table, int64(len(h.Name)), 10)
		table = append(table, " "+h.Name+" "...)
		for _, rank := range h.Ranks {
			table = strconv.AppendInt(table, int64(rank), 10)
			table = append(table, ',')
		}
		table = append(table, ' ')
	}
	table = append(table, '\n')
	c.say("put_ranks2hosts ")
	c.sayNumber(len(table) + 1)
	c.say(" ")
	c.sayNumber(len(hosts))
	c.say("\n" + string(table))
}

// executionProblem is ParaStation's helper telling that exec failed; the exit
// status will say the same.
func (c *session) executionProblem() {
	c.s.note(c.rank, "could not execute: "+Escape(c.args.text("reason")))
}
