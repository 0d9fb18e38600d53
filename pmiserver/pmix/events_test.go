package pmix

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"remshell/pmiserver/fence"
	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
)

const notifyOf = 12

// notifyBody tells others of an event, with a word.
func notifyBody(code int32, to message.Range, infos ...bfrops.Info) []byte {
	b := bfrops.AppendByte(bfrops.AppendUint32(body(notifyOf), uint32(code)), byte(to))
	return bfrops.AppendInfos(b, append(infos, bfrops.Info{Key: "word", Value: bfrops.TextOf("hello")}))
}

func registerBody(codes ...int32) []byte {
	return bfrops.AppendInfos(bfrops.AppendStatuses(body(regevents), codes), nil)
}

// A sentEvents is the way of events to other nodes, without mpiexec.
type sentEvents struct {
	to   []*Server
	seen []Event
}

func (x *sentEvents) Notify(e Event, told func(message.Status)) {
	x.seen = append(x.seen, e)
	for _, s := range x.to {
		s.DeliverEvent(e)
	}
	told(message.Success)
}

// eventIn reads an event; ok: it is one, of tag 0.
func eventIn(tag uint32, b []byte) (code int32, source bfrops.Proc, word string, ok bool) {
	r := bfrops.NewReader(b)
	command := r.Byte()
	code = r.Status()
	source = r.Proc()
	for _, i := range r.Infos() {
		if i.Key == "word" {
			word, _ = i.Value.Text()
		}
	}
	return code, source, word, tag == 0 && command == notifyOf && r.Err() == nil && !r.More()
}

// An event comes to those ranks in its range that have named its code, but not to who tells it; nobody
// else hears of it, and what crosses the end of a registration is in order.
func TestEvents(t *testing.T) {
	near, there, _ := newPair(t)
	near.OtherNodes = &countedNode{}
	bag := &sentEvents{to: []*Server{there}}
	near.Notifier = bag
	_, told := newTestServer(t, 1, 1)
	other := testGroup(1, 1, told)
	other.Name, other.Namespace = "other", testSpace+"1"
	near.AddGroup(other)
	clients := map[string]*testClient{"k0": initialized(t, near, 0), "k1": initialized(t, near, 1), "k2": initialized(t, there, 2), "k3": initialized(t, there, 3)}
	stranger := connectRaw(t, near, handshake(other.Namespace, 0, nil))
	stranger.welcome()
	clients["other0"] = stranger
	const wanted, unwanted = -3001, -3002
	for name, c := range clients {
		if name != "k3" { // who wants to hear of all that nobody else hears of
			c.status(registerBody(unwanted, wanted))
			c.send(bfrops.AppendUint32(body(deregevents), uint32ed(unwanted))) // has no answer
		} else {
			c.status(registerBody())
		}
	}
	list := func(procs ...bfrops.Proc) bfrops.Info {
		b := []byte{0, 22, 0, 15, 0, 0, 0, 0, 0, 0, 0, byte(len(procs))} // a list of PROC
		for _, p := range procs {
			b = append(b, bfrops.AppendProc(nil, p)[4:]...)
		}
		return bfrops.Info{Key: "pmix.evrange", Value: bfrops.Value{Type: bfrops.DataArray, Bytes: b}}
	}
	for what, test := range map[string]struct {
		request []byte
		want    message.Status
		hear    []string
		leave   bool
	}{
		"of this node":         {notifyBody(wanted, message.OnNode), 0, []string{"k1", "other0"}, false},
		"of its namespace":     {notifyBody(wanted, message.InNamespace), 0, []string{"k1", "k2"}, true},
		"of the job":           {notifyBody(wanted, message.InJob), 0, []string{"k1", "k2", "other0"}, true},
		"of nothing said":      {notifyBody(wanted, 0), 0, []string{"k1", "k2", "other0"}, true},
		"of all":               {notifyBody(wanted, message.Everywhere), 0, []string{"k1", "k2", "other0"}, true},
		"of a list":            {notifyBody(wanted, message.ListedProcs, list(bfrops.Proc{Namespace: testSpace, Rank: 0}, bfrops.Proc{Namespace: testSpace, Rank: 2})), 0, []string{"k2"}, true},
		"of no list":           {notifyBody(wanted, message.ListedProcs), message.BadParameter, nil, false},
		"of a list of nobody":  {notifyBody(wanted, message.ListedProcs, list(bfrops.Proc{Namespace: testSpace, Rank: 9})), message.BadParameter, nil, false},
		"of a manager":         {notifyBody(wanted, 1), 0, nil, false},
		"of the process":       {notifyBody(wanted, 7), 0, nil, false},
		"of no code they want": {notifyBody(unwanted, message.InJob), 0, nil, true},
		"of a model":           {notifyBody(int32(message.ModelDeclared), message.InJob), 0, nil, false},
		"too long":             {notifyBody(wanted, message.InJob, bfrops.Info{Key: "x", Value: bfrops.TextOf(strings.Repeat("x", maxInfos))}), message.NoMemory, nil, false},
	} {
		bag.seen = nil
		if got := clients["k0"].status(test.request); got != test.want || len(bag.seen) > 0 != test.leave {
			t.Errorf("%s: answered by %v, want %v; leaves the node: %v, want %v", what, got, test.want, len(bag.seen) > 0, test.leave)
		}
		for name, c := range clients {
			if name == "k0" {
				continue
			}
			// What comes before the answer to a question is all that there is.
			tag := c.send(registerBody())
			var heard []string
			for got, answer := c.receive(); got != tag; got, answer = c.receive() {
				code, source, word, ok := eventIn(got, answer)
				heard = append(heard, fmt.Sprint(code, source, word, ok))
			}
			var want []string
			if slices.Contains(test.hear, name) {
				want = []string{fmt.Sprint(wanted, bfrops.Proc{Namespace: testSpace, Rank: 0}, "hello", true)}
			}
			if !slices.Equal(heard, want) {
				t.Errorf("%s: %s hears %q, want %q", what, name, heard, want)
			}
		}
	}
}

// A rank may want to hear of so many events, over all its connections, and of others when it wants to
// hear of fewer, or one of them has ended.
func TestEventsOfARankAreBounded(t *testing.T) {
	s, _ := newTestServer(t, 1, 1)
	a, b := initialized(t, s, 0), initialized(t, s, 0)
	var codes []int32
	for code := range int32(maxCodes) {
		codes = append(codes, -code-1000)
	}
	for i, step := range []struct {
		c     *testClient
		codes []int32
		want  message.Status
	}{{a, codes[:1000], 0}, {b, codes[:24], 0}, {b, codes[:24], 0}, {b, codes[24:25], message.NoMemory}, {b, codes[:1], 0}} {
		if got := step.c.status(registerBody(step.codes...)); got != step.want {
			t.Errorf("step %d: %v, want %v", i, got, step.want)
		}
	}
	b.send(bfrops.AppendUint32(body(deregevents), uint32ed(codes[0])))
	if got := b.status(registerBody(-1)); got != message.Success {
		t.Errorf("one in the place of another: %v", got)
	}
	s.removeClient(s.groupByName("k").findRank(0).clients[0])
	if got := b.status(registerBody(codes[24:900]...)); got != message.Success {
		t.Errorf("those of a connection that has ended: %v", got)
	}
	s.groupByName("k").findRank(0).notices.Store(maxNotices)
	s.OtherNodes, s.Notifier = &countedNode{}, &sentEvents{}
	if got := b.status(notifyBody(-5, message.InJob)); got != message.NoMemory {
		t.Errorf("one more on its way: %v", got)
	}
}

// A client that does not read misses events, and is not cut off for what others say.
func TestEventsForAClientThatDoesNotRead(t *testing.T) {
	s, told := newTestServer(t, 2, 2)
	c := initialized(t, s, 1)
	c.status(registerBody(-5))
	word := bfrops.AppendInfos(nil, []bfrops.Info{{Key: "x", Value: bfrops.TextOf(strings.Repeat("x", maxInfos-100))}})
	const events = 2 * maxEventBacklog / maxInfos
	for range events {
		s.DeliverEvent(Event{Group: "k", Rank: 0, Code: -5, Infos: word})
	}
	if h := <-told; h != (reported{1, "note: PMIx: it misses an event, since it does not read"}) {
		t.Errorf("the job hears %v", h)
	}
	heard, tag := 0, c.tag+1
	go c.send(registerBody())
	for got, _ := c.receive(); got != tag; got, _ = c.receive() {
		heard++
	}
	if heard < maxEventBacklog/maxInfos || heard >= events {
		t.Errorf("it hears of %d events of %d", heard, events)
	}
}

// FuzzTell: whatever another node says of an event, a client is told nothing that it cannot read.
func FuzzTell(f *testing.F) {
	good := bfrops.AppendInfos(nil, []bfrops.Info{{Key: "word", Value: bfrops.TextOf("hello")}})
	for _, to := range []string{"", "k", "k[0]", "k[1-3],other", "k[", "a,a", "k[3-1]"} {
		f.Add("k", 0, int32(-5), to, good)
	}
	f.Add("other", 1<<40, int32(-5), "k", good[:len(good)-1])
	f.Add("", -1, int32(-6), "k", append(good, 0))
	f.Fuzz(func(t *testing.T, group string, rank int, code int32, to string, infos []byte) {
		s, _ := newTestServer(t, 2, 2)
		s.GroupFinder = namespaceFunc(func(string) string { return "rs-elsewhere" })
		c := initialized(t, s, 1)
		c.status(registerBody(-5))
		s.DeliverEvent(Event{Group: group, Rank: rank, Code: code, Targets: fence.Members(to), Infos: infos})
		tag := c.send(registerBody())
		for got, answer := c.receive(); got != tag; got, answer = c.receive() {
			if code, _, _, ok := eventIn(got, answer); !ok || code != -5 {
				t.Errorf("the client is told %x", answer)
			}
		}
		s.Close()
	})
}

// uint32ed is a code as it stands in a message.
func uint32ed(code int32) uint32 { return uint32(code) }
