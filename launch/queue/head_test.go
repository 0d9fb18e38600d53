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

// A head is overtaken when its ranks have fitted for a minute without a break, in five looks, and not before.
// It is never overtaken if they do not fit now, and at once if they can never fit.
func TestDecide(t *testing.T) {
	fits, full, never, unseen := observation{fits: true}, observation{}, observation{neverFits: true}, observation{tooFewSeen: true}
	type look struct {
		at   int // seconds
		s    observation
		want headDecision
	}
	for _, test := range []struct {
		name  string
		looks []look
	}{
		{"fits for a minute", []look{{0, fits, keepWaiting}, {12, fits, keepWaiting}, {24, fits, keepWaiting}, {36, fits, keepWaiting}, {48, fits, keepWaiting}, {59, fits, keepWaiting}, {60, fits, overtakeUser}}},
		{"a minute, but four looks", []look{{0, fits, keepWaiting}, {20, fits, keepWaiting}, {40, fits, keepWaiting}, {60, fits, keepWaiting}, {61, fits, overtakeUser}}},
		{"a break", []look{{0, fits, keepWaiting}, {30, fits, keepWaiting}, {40, full, keepWaiting}, {52, fits, keepWaiting}, {64, fits, keepWaiting}, {76, fits, keepWaiting}, {88, fits, keepWaiting}, {111, fits, keepWaiting}, {112, fits, overtakeUser}}},
		{"never fits now", []look{{0, full, keepWaiting}, {60, full, keepWaiting}, {3600, full, keepWaiting}, {86400, full, keepWaiting}}},
		{"can never fit", []look{{0, never, overtakeTicket}}},
		{"too few of its nodes", []look{{0, unseen, keepWaiting}, {599, unseen, keepWaiting}, {600, unseen, useOtherNodes}}},
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

// A head may wait for a better node set although its ranks fit: it is overtaken a minute after the time on its
// ticket. That time counts only up to what the site allows.
func TestSetPatience(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		delay, site int // seconds
		overtaken   int
	}{{0, 3600, 60}, {120, 3600, 180}, {120, 0, 60}, {1 << 30, 300, 360}} {
		w := headObserver{patience: time.Duration(test.site) * time.Second}.withHead(job.Ticket{Number: 1, Job: "j", MaxSetDelay: test.delay}, start)
		for at := 0; ; at += 12 {
			var got headDecision
			if w, got = w.decide(observation{fits: true}, start.Add(time.Duration(at)*time.Second)); got == keepWaiting && at < test.overtaken {
				continue
			}
			if got != overtakeUser || at < test.overtaken {
				t.Errorf("%+v: %v after %d s", test, got, at)
			}
			break
		}
	}
}

// The interval between looks depends on whether the head's ranks fit. For a new head, everything starts anew.
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
		t.Errorf("if the ranks fit: after %v", got)
	}
	if r = r.withHead(job.Ticket{Number: 2}, now.Add(time.Hour)); r.looks != 0 || !r.next.Equal(now.Add(time.Hour)) {
		t.Errorf("another head: %+v", r)
	}
}

func TestObserveHead(t *testing.T) {
	cores := func(n int) (topology pin.Topology) {
		for cpu := range n {
			topology.Cores = append(topology.Cores, pin.Core{CPUs: []int{cpu, cpu + n}})
		}
		return topology
	}
	node := func(name string, busy ...int) job.Node {
		return job.Node{Probe: job.Probe{Hostname: name, Topology: cores(4)}, Occupancy: job.Occupancy{BusyCPUs: busy, Ranks: len(busy)}}
	}
	exclusive := node("b")
	exclusive.ExclusivelyHeld = true
	shared := node("a", 0, 1, 2, 3, 4, 5, 6, 7)
	shared.SharedCPUs = shared.BusyCPUs
	for _, test := range []struct {
		name  string
		t     job.Ticket
		nodes []job.Node
		want  observation
	}{
		{"fits", job.Ticket{Size: 4}, []job.Node{node("a")}, observation{fits: true}},
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
		{"held exclusively by another", job.Ticket{Size: 1, Nodes: "b"}, []job.Node{exclusive}, observation{}},
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

// A short ticket of another user may name a huge number of hosts, which must not use up memory.
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
