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

// notifyBody is a NOTIFY request whose event carries a word.
func notifyBody(code int32, to message.Range, infos ...bfrops.Info) []byte {
	b := bfrops.AppendByte(bfrops.AppendUint32(body(notifyOf), uint32(code)), byte(to))
	return bfrops.AppendInfos(b, append(infos, bfrops.Info{Key: "word", Value: bfrops.TextOf("hello")}))
}

func registerBody(codes ...int32) []byte {
	return bfrops.AppendInfos(bfrops.AppendStatuses(body(regevents), codes), nil)
}

// sentEvents is a Notifier that delivers events to other servers directly, without mpiexec.
type sentEvents struct {
	to   []*Server
	seen []Event
}

func (x *sentEvents) Notify(e Event, done func(message.Status)) {
	x.seen = append(x.seen, e)
	for _, s := range x.to {
		s.DeliverEvent(e)
	}
	done(message.Success)
}

// eventIn decodes an event. ok is false if the message is none.
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

// An event is delivered to the ranks of its range that have registered its code, but not to its source.
// Registration and deregistration take effect in order.
func TestEvents(t *testing.T) {
	near, there, _ := newPair(t)
	near.OtherNodes = &countedNode{}
	bag := &sentEvents{to: []*Server{there}}
	near.Notifier = bag
	_, reports := newTestServer(t, 1, 1)
	other := testGroup(1, 1, reports)
	other.Name, other.Namespace = "other", testSpace+"1"
	near.AddGroup(other)
	clients := map[string]*testClient{"k0": initialized(t, near, 0), "k1": initialized(t, near, 1), "k2": initialized(t, there, 2), "k3": initialized(t, there, 3)}
	client0 := connectRaw(t, near, handshake(other.Namespace, 0, nil))
	client0.welcome()
	clients["other0"] = client0
	const wanted, unwanted = -3001, -3002
	for name, c := range clients {
		if name != "k3" { // k3 has only a default handler
			c.status(registerBody(unwanted, wanted))
			c.send(bfrops.AppendUint32(body(deregevents), uint32ed(unwanted))) // has no reply
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
			// Events that were sent to the client arrive before this reply.
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

// A rank may register maxCodes codes over all its connections. It may register others after it has
// deregistered some, or one of the connections has ended.
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

// A client that does not read misses events. It is not disconnected because other ranks send events.
func TestEventsForAClientThatDoesNotRead(t *testing.T) {
	s, reports := newTestServer(t, 2, 2)
	c := initialized(t, s, 1)
	c.status(registerBody(-5))
	word := bfrops.AppendInfos(nil, []bfrops.Info{{Key: "x", Value: bfrops.TextOf(strings.Repeat("x", maxInfos-100))}})
	const events = 2 * maxEventBacklog / maxInfos
	for range events {
		s.DeliverEvent(Event{Group: "k", Rank: 0, Code: -5, Infos: word})
	}
	if h := <-reports; h != (reported{1, "note: PMIx: an event is lost, because the rank does not read from its PMIx connection"}) {
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

// FuzzDeliverEvent checks that a client gets no message it cannot decode, whatever another node sends as
// an event.
func FuzzDeliverEvent(f *testing.F) {
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
				t.Errorf("the client got %x", answer)
			}
		}
		s.Close()
	})
}

// uint32ed returns a code as it is encoded in a message.
func uint32ed(code int32) uint32 { return uint32(code) }
