package queue

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"remshell/job"
	"remshell/pin"
)

// A head is passed when it has had room for a minute without a break, in five looks, and not
// before; one without room never; one that can have none at once.
func TestWhoIsPassed(t *testing.T) {
	room, none, never, blind := observation{fits: true}, observation{}, observation{neverFits: true}, observation{tooFewSeen: true}
	type look struct {
		at   int // seconds
		s    observation
		want headDecision
	}
	for _, test := range []struct {
		name  string
		looks []look
	}{
		{"room for a minute", []look{{0, room, keepWaiting}, {12, room, keepWaiting}, {24, room, keepWaiting}, {36, room, keepWaiting}, {48, room, keepWaiting}, {59, room, keepWaiting}, {60, room, overtakeUser}}},
		{"a minute, but four looks", []look{{0, room, keepWaiting}, {20, room, keepWaiting}, {40, room, keepWaiting}, {60, room, keepWaiting}, {61, room, overtakeUser}}},
		{"a break", []look{{0, room, keepWaiting}, {30, room, keepWaiting}, {40, none, keepWaiting}, {52, room, keepWaiting}, {64, room, keepWaiting}, {76, room, keepWaiting}, {88, room, keepWaiting}, {111, room, keepWaiting}, {112, room, overtakeUser}}},
		{"never room", []look{{0, none, keepWaiting}, {60, none, keepWaiting}, {3600, none, keepWaiting}, {86400, none, keepWaiting}}},
		{"can have none", []look{{0, never, overtakeTicket}}},
		{"too few of its nodes", []look{{0, blind, keepWaiting}, {599, blind, keepWaiting}, {600, blind, useOtherNodes}}},
	} {
		start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		r := headObserver{}.withHead(job.Ticket{Number: 1, Job: "j"}, start)
		for _, l := range test.looks {
			var got headDecision
			if r, got = r.decide(l.s, start.Add(time.Duration(l.at)*time.Second)); got != l.want {
				t.Errorf("%s: after %d s %v, want %v", test.name, l.at, got, l.want)
			}
		}
	}
}

// A head that waits for a set of nodes has room and does not take it: it is passed when that time is
// over as well, but a ticket is not believed that it may take longer than the site lets anybody.
func TestWhoInsistsOnASet(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		says, site int // seconds
		passed     int
	}{{0, 3600, 60}, {120, 3600, 180}, {120, 0, 60}, {1 << 30, 300, 360}} {
		w := headObserver{patience: time.Duration(test.site) * time.Second}.withHead(job.Ticket{Number: 1, Job: "j", MaxSetDelay: test.says}, start)
		for at := 0; ; at += 12 {
			var got headDecision
			if w, got = w.decide(observation{fits: true}, start.Add(time.Duration(at)*time.Second)); got == keepWaiting && at < test.passed {
				continue
			}
			if got != overtakeUser || at < test.passed {
				t.Errorf("%+v: %v after %d s", test, got, at)
			}
			break
		}
	}
}

// How often we look at a head depends on whether it has room; another head is another matter.
func TestWhenToLook(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r := headObserver{}.withHead(job.Ticket{Number: 1}, now)
	for _, want := range []time.Duration{12, 24, 48, 96, 192, 300, 300} {
		r, _ = r.decide(observation{}, now)
		if got := r.next.Sub(now); got != want*time.Second {
			t.Errorf("next look after %v, want %d s", got, want)
		}
	}
	r, _ = r.decide(observation{fits: true}, now)
	if got := r.next.Sub(now); got != minLookInterval {
		t.Errorf("with room after %v", got)
	}
	if r = r.withHead(job.Ticket{Number: 2}, now.Add(time.Hour)); r.looks != 0 || !r.next.Equal(now.Add(time.Hour)) {
		t.Errorf("another head: %+v", r)
	}
}

func TestSightOf(t *testing.T) {
	cores := func(n int) (topology pin.Topology) {
		for cpu := range n {
			topology.Cores = append(topology.Cores, pin.Core{CPUs: []int{cpu, cpu + n}})
		}
		return topology
	}
	node := func(name string, busy ...int) job.Node {
		return job.Node{Probe: job.Probe{Hostname: name, Topology: cores(4)}, Occupancy: job.Occupancy{BusyCPUs: busy, Ranks: len(busy)}}
	}
	taken := node("b")
	taken.ExclusivelyHeld = true
	shared := node("a", 0, 1, 2, 3, 4, 5, 6, 7)
	shared.SharedCPUs = shared.BusyCPUs
	for _, test := range []struct {
		name  string
		t     job.Ticket
		nodes []job.Node
		want  observation
	}{
		{"room", job.Ticket{Size: 4}, []job.Node{node("a")}, observation{fits: true}},
		{"as many as there are", job.Ticket{}, []job.Node{node("a", 0, 1, 2)}, observation{fits: true}},
		{"a thread of a core is busy", job.Ticket{Size: 4}, []job.Node{node("a", 5)}, observation{}},
		{"more than there is", job.Ticket{Size: 5}, []job.Node{node("a")}, observation{neverFits: true}},
		{"more than there is, of named ones", job.Ticket{Size: 5, Nodes: "A"}, []job.Node{node("a"), node("b")}, observation{neverFits: true}},
		{"on both", job.Ticket{Size: 8, Nodes: "a,b"}, []job.Node{node("a"), node("b")}, observation{fits: true}},
		{"one is full", job.Ticket{Size: 8, Nodes: "a,b"}, []job.Node{node("a"), node("b", 1)}, observation{}},
		{"one is not ours", job.Ticket{Size: 8, Nodes: "a,c"}, []job.Node{node("a"), node("b")}, observation{tooFewSeen: true}},
		{"one is not ours, nor needed", job.Ticket{Size: 4, Nodes: "a,c"}, []job.Node{node("a"), node("b")}, observation{fits: true}},
		{"none is ours", job.Ticket{Size: 1, Nodes: "c[1-9]"}, []job.Node{node("a")}, observation{tooFewSeen: true}},
		{"nonsense", job.Ticket{Size: 1 << 30, Nodes: "c[1-"}, []job.Node{node("a")}, observation{neverFits: true}},
		{"two CPUs each", job.Ticket{Size: 2, CPUs: 2}, []job.Node{node("a", 3)}, observation{}},
		{"wide ranks", job.Ticket{Size: 1, CPUs: 5}, []job.Node{node("a")}, observation{neverFits: true}},
		{"one on a node", job.Ticket{Size: 2, PerNode: 1}, []job.Node{node("a"), node("b", 0)}, observation{fits: true}},
		{"alone, beside somebody", job.Ticket{Size: 1, Exclusive: true}, []job.Node{node("a", 0)}, observation{}},
		{"alone", job.Ticket{Size: 4, Exclusive: true}, []job.Node{node("a")}, observation{fits: true}},
		{"taken by another", job.Ticket{Size: 1, Nodes: "b"}, []job.Node{taken}, observation{}},
		{"overbooked", job.Ticket{Size: 99, Exclusive: true, Shares: true}, []job.Node{node("a")}, observation{fits: true}},
		{"it shares, and others do, too", job.Ticket{Size: 99, Shares: true}, []job.Node{shared}, observation{fits: true}},
		{"it shares, and others do not", job.Ticket{Size: 99, Shares: true}, []job.Node{node("a", 0, 1, 2, 3, 4, 5, 6, 7)}, observation{}},
		{"it shares, and a core is free", job.Ticket{Size: 99, Shares: true}, []job.Node{node("a", 0)}, observation{fits: true}},
		{"others share, and it does not", job.Ticket{Size: 1}, []job.Node{shared}, observation{}},
	} {
		if got := observeHead(test.t, test.nodes); got != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
}

// A ticket is a few bytes of another user's, and may name more hosts than there is memory for.
func TestTicketThatNamesAMillionHosts(t *testing.T) {
	var nodes []string
	for i := range 16 {
		nodes = append(nodes, fmt.Sprintf("n%d[1-65536]", i))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	named := ticketNodes(job.Ticket{Nodes: strings.Join(nodes, ",")})
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; named != nil || took > 100<<20 {
		t.Errorf("%d names, %d MiB were allocated", len(named), took>>20)
	}
	if named := ticketNodes(job.Ticket{Nodes: "N[1-10000]"}); len(named) != 10000 || !named["n7"] {
		t.Errorf("%d names", len(named))
	}
}
