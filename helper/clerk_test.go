//go:build linux

package helper

import (
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"remshell/helper/probe"
	"remshell/job"
	"remshell/ledger"
	"remshell/wire"
)

// A launch from inside a rank may use what the jobs around it hold, and nothing else.
func TestRelatedClaims(t *testing.T) {
	claims := []job.Claim{{Job: "outer"}, {Job: "middle", Inside: "outer"}, {Job: "other"}, {Job: "sister", Inside: "outer"},
		{Job: "loop", Inside: "loop"}, {Job: "his", UID: 1}}
	for inside, want := range map[job.ID]string{
		"":       "outer middle other sister loop his",
		"outer":  "middle other sister loop his",
		"middle": "other sister loop his",
		"loop":   "outer middle other sister his",
		"gone":   "outer middle other sister loop his",
		"his":    "outer middle other sister loop his", // as anybody could say
	} {
		var left []string
		_, others := related(claims, inside, 0)
		for _, c := range others {
			left = append(left, string(c.Job))
		}
		if got := strings.Join(left, " "); got != want {
			t.Errorf("inside %q: %s, want %s", inside, got, want)
		}
	}
}

// An mpiexec that dies while it reserves, or at any step before, leaves neither gate nor
// ticket nor claim.
func TestADeathWhileReservingLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	prepare := &wire.Prepare{Job: "test", Group: wire.Group{Size: 1, Nodes: 1}, Process: wire.Process{Umask: -1}, Claim: wire.Claim{Ledger: dir, Most: -1, Entry: job.Claim{Job: "test"}},
		Apps: []job.App{{Argv: []string{"/bin/true"}, Dir: "/"}}, Ranks: []job.RankPlan{{Held: []int{0}}}}
	steps := []wire.Message{&wire.Gate{Ledger: dir}, &wire.Survey{Ledger: dir},
		&wire.Enqueue{Ledger: dir, Ticket: job.Ticket{Job: "test"}}, &wire.Watch{Ledger: dir}, prepare}
	for n := range len(steps) + 1 {
		k := newTalk(t)
		for _, m := range steps[:n] {
			k.conn.Send(m)
		}
		if n%2 == 0 { // else it dies while the helper is at it
			k.conn.Send(&wire.List{Ledger: dir})
			hear[*wire.Listed](k)
		}
		k.conn.Flush()
		k.conn.Abandon()
		k.end()
		other, err := ledger.Open(dir, probe.Identity(os.DirFS("/")))
		if err != nil {
			t.Fatal(err)
		}
		claims, _ := other.Claims()
		tickets, _ := other.Tickets()
		gate, err := other.Gate(t.Context())
		if err != nil || gate.Warning != nil || len(claims)+len(tickets) > 0 {
			t.Errorf("after %d steps: %v, %v, %v, %+v", n, claims, tickets, err, gate)
		}
		gate.Open()
		other.Close()
	}
}

func TestHold(t *testing.T) {
	two := []job.Claim{{Ranks: []job.Seat{{CPUs: []int{0, 4}}}}, {Ranks: []job.Seat{{CPUs: []int{1}}, {}}}}
	for _, test := range []struct {
		claims []job.Claim
		cpus   []int
		want   bool
	}{
		{two, []int{0, 1}, true},
		{two, []int{0, 1, 4}, true},
		{two, []int{0, 1, 5}, false},
		{[]job.Claim{{}}, []int{0}, false},
		{[]job.Claim{{Exclusive: true}}, []int{0}, true},
	} {
		if got := hold(test.claims, test.cpus); got != test.want {
			t.Errorf("%+v hold %v: %v", test.claims, test.cpus, got)
		}
	}
}

// Nobody can keep a user from his own job by a claim in its name.
func TestMayStrike(t *testing.T) {
	claims := []job.Claim{{Job: "a", UID: 7}, {Job: "a", UID: 5}, {Job: "b", UID: 7}}
	for _, test := range []struct {
		id   job.ID
		uid  int
		here bool
		err  string
	}{
		{"a", 5, true, ""},
		{"b", 0, true, ""},
		{"b", 5, false, "job b belongs to another user (uid 7)"},
		{"c", 5, false, ""},
	} {
		here, err := mayStrike(claims, test.id, test.uid)
		if here != test.here || (err == nil) != (test.err == "") || err != nil && err.Error() != test.err {
			t.Errorf("%s by %d: %v, %v", test.id, test.uid, here, err)
		}
	}
}

// An mpiexec that was stopped while the gate was shut keeps nobody else waiting for long.
func TestTheGateOpensByItself(t *testing.T) {
	here, there := net.Pipe()
	said := wire.NewConn(here, wire.Launcher)
	defer said.Abandon()
	dir := t.TempDir()
	s := newSession(wire.NewConn(there, wire.Helper), System{Root: os.DirFS("/")})
	defer s.clerk.close()
	s.clerk.gateMost = 30 * time.Millisecond
	s.frame(&wire.Gate{Ledger: dir})
	if m, err := said.Recv(); err != nil || m.(*wire.Gated).Notice != "" {
		t.Fatalf("%+v, %v", m, err)
	}
	other, err := ledger.Open(dir, probe.Identity(s.sys.Root))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	gate, err := other.Gate(t.Context())
	if err != nil || gate.Warning != nil {
		t.Fatalf("%v, %v", err, gate.Warning)
	}
	gate.Open()
	s.frame(&wire.Ungate{}) // late
	s.frame(&wire.List{Ledger: dir})
	if m, err := said.Recv(); err != nil || m.(*wire.Listed).Err != "" {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestConflict(t *testing.T) {
	seats := func(cpus ...int) (ranks []job.Seat) {
		for i, cpu := range cpus {
			ranks = append(ranks, job.Seat{Rank: i, CPUs: []int{cpu}})
		}
		return ranks
	}
	card := func(cpu int, address string) []job.Seat {
		return []job.Seat{{CPUs: []int{cpu}, GPUs: []string{address}}}
	}
	two := job.Claim{Job: "b", Ranks: seats(2, 3)}
	for _, test := range []struct {
		name   string
		m      wire.Prepare
		mine   job.Claim
		others []job.Claim
		want   string
	}{
		{"nobody else", wire.Prepare{Claim: wire.Claim{Most: -1}}, job.Claim{Ranks: seats(0), Exclusive: true}, nil, ""},
		{"other CPUs", wire.Prepare{Claim: wire.Claim{Most: -1}}, job.Claim{Ranks: seats(0, 1)}, []job.Claim{two}, ""},
		{"a CPU of another", wire.Prepare{Claim: wire.Claim{Most: -1}}, job.Claim{Ranks: seats(1, 2)}, []job.Claim{two}, "CPU 2 was taken by another job"},
		{"a try-out", wire.Prepare{Claim: wire.Claim{Most: -1, Shares: true}}, job.Claim{Ranks: seats(1, 2)}, []job.Claim{two}, ""},
		{"alone", wire.Prepare{Claim: wire.Claim{Most: -1}}, job.Claim{Ranks: seats(0), Exclusive: true}, []job.Claim{two}, "not idle: job b runs there"},
		{"another is alone", wire.Prepare{Claim: wire.Claim{Most: -1}}, job.Claim{Ranks: seats(0)}, []job.Claim{{Job: "b", Exclusive: true}}, "used exclusively by another job"},
		{"a try-out where another is alone", wire.Prepare{Claim: wire.Claim{Most: -1, Shares: true}}, job.Claim{}, []job.Claim{{Job: "b", Exclusive: true}}, "used exclusively by another job"},
		{"room below maxproc", wire.Prepare{Claim: wire.Claim{Most: 4}}, job.Claim{Ranks: seats(0, 1)}, []job.Claim{two}, ""},
		{"over maxproc", wire.Prepare{Claim: wire.Claim{Most: 3}}, job.Claim{Ranks: seats(0, 1)}, []job.Claim{two}, "2 of at most 3 processes running"},
		{"a GPU of another", wire.Prepare{Claim: wire.Claim{Most: -1}}, job.Claim{Ranks: card(0, "0000:07:00.0")}, []job.Claim{{Job: "b", Ranks: card(3, "0000:07:00.0")}},
			"GPU 0000:07:00.0 was taken by another job"},
		{"other GPUs", wire.Prepare{Claim: wire.Claim{Most: -1}}, job.Claim{Ranks: card(0, "0000:07:00.0")}, []job.Claim{{Job: "b", Ranks: card(3, "0000:0f:00.0")}}, ""},
		{"a try-out with GPUs", wire.Prepare{Claim: wire.Claim{Most: -1, Shares: true}}, job.Claim{Ranks: card(3, "0000:07:00.0")}, []job.Claim{{Job: "b", Ranks: card(3, "0000:07:00.0")}},
			"GPU 0000:07:00.0 was taken by another job"},
		{"its own outer job", wire.Prepare{Claim: wire.Claim{Most: -1}}, job.Claim{Inside: "b", Ranks: seats(2)}, []job.Claim{two}, ""},
	} {
		got := ""
		if err := conflict(&test.m, test.mine, ledger.Others{Mine: slices.Clone(test.others)}); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
