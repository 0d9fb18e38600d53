package preempt

import (
	"cmp"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"remshell/gpu"
	"remshell/job"
	"remshell/pin"
	"remshell/plan"
	"remshell/test/doctable"
)

var update = flag.Bool("update", false, "write doc/supervision.md anew")

var born = time.Unix(1_000_000, 0)

// A holding is what a job has of nodes a, b, ...: "a:0,1 b:0".
type holding struct {
	id    job.ID
	age   time.Duration
	how   job.Yielding // empty: it does not give way
	nodes string
}

// cluster is nodes of two CPUs each, and what jobs hold of them.
func cluster(nodes int, held ...holding) (snap job.Snapshot) {
	for i := range nodes {
		name := string(rune('a' + i))
		n := job.Node{NodeDef: job.NodeDef{ID: i, Name: name}, Probe: job.Probe{Hostname: name, Arch: "amd64", Memory: job.Memory{Total: 1 << 30, Available: 1 << 30},
			Topology: pin.Topology{Cores: []pin.Core{{CPUs: []int{0}}, {CPUs: []int{1}}}}}}
		for _, h := range held {
			w := job.Willing{Job: h.id, UID: len(h.id), User: "bob", How: h.how, Since: born.Add(-h.age)}
			for _, part := range strings.Fields(h.nodes) {
				if node, cpus, _ := strings.Cut(part, ":"); node == name {
					for _, cpu := range strings.Split(cpus, ",") {
						w.Busy = append(w.Busy, int(cpu[0]-'0'))
						w.Procs, w.Seated = w.Procs+1, w.Seated+1
					}
				}
			}
			if len(w.Busy) == 0 {
				continue
			}
			if n.Use = n.Use.And(w.Holds()); h.how == "" {
				n.Firm = n.Firm.And(w.Holds())
			} else {
				n.Willing = append(n.Willing, w)
			}
		}
		snap.Nodes = append(snap.Nodes, n)
	}
	return snap
}

func request(ranks int, snap job.Snapshot) job.Request {
	req := job.Request{Job: "new", Apps: []job.App{{N: ranks, Argv: []string{"x"}}}}
	for _, n := range snap.Nodes {
		req.Nodes = append(req.Nodes, n.NodeDef)
	}
	return req
}

// Whom a request asks to give way (SV-33): doc/supervision.md has the table that this makes; with -update it is written anew.
func TestTableOfWhoIsAsked(t *testing.T) {
	const suspend, requeue = job.YieldBySuspending, job.YieldByRequeueing
	old, young, firm := time.Hour, time.Minute, job.Yielding("")
	var table strings.Builder
	table.WriteString("| what others hold, of two CPUs each | ranks wanted | asked to give way | then it runs on |\n|---|---|---|---|\n")
	for _, test := range []struct {
		nodes int
		held  []holding
		ranks int
	}{
		{2, []holding{{"old", old, suspend, "a:0,1"}}, 2},
		{2, []holding{{"old", old, suspend, "a:0,1"}}, 4},
		{2, []holding{{"old", old, suspend, "a:0,1"}, {"young", young, suspend, "b:0,1"}}, 2},
		{2, []holding{{"old", old, requeue, "a:0,1"}, {"young", young, suspend, "b:0"}}, 3},
		{2, []holding{{"old", old, suspend, "a:0,1 b:0,1"}, {"young", young, suspend, "b:0,1"}}, 3},
		{3, []holding{{"old", old, suspend, "a:0,1 b:0,1"}, {"young", young, suspend, "c:0"}}, 5},
		{2, []holding{{"firm", old, firm, "a:0,1"}, {"young", young, suspend, "b:0,1"}}, 2},
		{2, []holding{{"firm", old, firm, "a:0,1"}, {"young", young, suspend, "b:0,1"}}, 3},
		{1, []holding{{"firm", old, firm, "a:1"}, {"young", young, suspend, "a:0,1"}}, 2},
	} {
		snap := cluster(test.nodes, test.held...)
		req := request(test.ranks, snap)
		var made job.Plan
		fits := func(snap job.Snapshot) (fit bool) {
			p, err := plan.Make(req, snap)
			return err == nil && p.Size == test.ranks
		}
		var holds, asked []string
		for _, h := range test.held {
			word := fmt.Sprintf("%s %s", h.id, h.nodes)
			if h.how != "" {
				word += " (" + string(h.how) + ")"
			}
			holds = append(holds, word)
		}
		var chosen []Victim
		if !fits(snap) {
			chosen = Choose(snap, fits, func(Victim) bool { return false })
		}
		for _, v := range chosen {
			asked = append(asked, string(v.Job))
		}
		runs := "nothing yet"
		if p, err := plan.Make(req, Without(snap, chosen)); err == nil {
			made = p
			var nodes []string
			for _, n := range made.Nodes {
				nodes = append(nodes, n.Name)
			}
			runs = strings.Join(nodes, ", ")
		}
		fmt.Fprintf(&table, "| %s | %d | %s | %s |\n", strings.Join(holds, "; "), test.ranks, cmp.Or(strings.Join(asked, ", "), "nobody"), runs)
	}
	doctable.Check(t, "../../doc/supervision.md", "<!-- begin of the table of who is asked -->\n", "<!-- end of the table of who is asked -->\n", table.String(), *update,
		"go test ./launch/preempt -run TestTableOfWhoIsAsked -update")
}

// Who has given way keeps what it needs when it goes on: of a suspended job that is its GPUs.
func TestWhatIsFreeThen(t *testing.T) {
	for how, want := range map[job.Yielding][]string{job.YieldBySuspending: {"g0", "g1"}, job.YieldByRequeueing: {"g0"}} {
		snap := cluster(1, holding{"firm", 1, "", "a:0"}, holding{"young", 1, how, "a:1"})
		n := &snap.Nodes[0]
		n.Firm.BusyGPUs, n.Willing[0].GPUs, n.Own = []string{"g0"}, []string{"g1"}, 3
		got := Without(snap, []Victim{{Job: "young", UID: 5}}).Nodes[0].Use
		if !slices.Equal(got.Busy, []int{0}) || !slices.Equal(got.BusyGPUs, want) || got.Procs != 1 || got.Own != 3 {
			t.Errorf("%s: %+v", how, got)
		}
		if n.Procs != 2 {
			t.Errorf("the snapshot itself is changed: %+v", n.Use)
		}
		if got := Without(snap, []Victim{{Job: "young", UID: 6}}).Nodes[0].Use; got.Procs != 2 {
			t.Errorf("a job of that name, but of another user, is taken for it: %+v", got)
		}
	}
}

// A job that would only stand still is not asked for its GPUs, which it keeps; one that ends gives them.
func TestWhoIsAskedForAGPU(t *testing.T) {
	for how, want := range map[job.Yielding]int{job.YieldBySuspending: 0, job.YieldByRequeueing: 1} {
		const address = "0000:01:00.0"
		snap := cluster(1, holding{"young", time.Minute, how, "a:0"})
		n := &snap.Nodes[0]
		n.GPUs, n.BusyGPUs = []gpu.GPU{{Vendor: gpu.NVIDIA, Address: address}}, []string{address}
		n.Willing[0].GPUs = []string{address}
		req := request(1, snap)
		req.Apps[0].GPUs = 1
		fits := func(snap job.Snapshot) bool {
			_, err := plan.Make(req, snap)
			return err == nil
		}
		if got := Choose(snap, fits, func(Victim) bool { return false }); fits(snap) || len(got) != want {
			t.Errorf("%s: %d are asked", how, len(got))
		}
	}
}

// Who has said no is not asked again, and what a helper makes up is nobody who gives way.
func TestWhoIsNotAsked(t *testing.T) {
	snap := cluster(2, holding{"young", time.Minute, job.YieldBySuspending, "a:0,1"}, holding{"oldest", time.Hour, job.YieldBySuspending, "b:0,1"}, holding{"junk", 1, "at will", "a:0"})
	fits := func(s job.Snapshot) bool { return len(s.Nodes[0].Busy) == 0 || len(s.Nodes[1].Busy) == 0 }
	name := func(all []Victim) (names []string) {
		for _, v := range all {
			names = append(names, string(v.Job))
		}
		return names
	}
	snap.Nodes[0].Willing = slices.DeleteFunc(snap.Nodes[0].Willing, func(w job.Willing) bool { return w.Job == "junk" })
	if got := name(Choose(snap, fits, func(Victim) bool { return false })); !slices.Equal(got, []string{"young"}) {
		t.Errorf("%q are asked", got)
	}
	if got := name(Choose(snap, fits, func(v Victim) bool { return v.Job == "young" })); !slices.Equal(got, []string{"oldest"}) {
		t.Errorf("%q are asked, when one has said no", got)
	}
	junk := cluster(1, holding{"junk", 1, "at will", "a:0,1"})
	if got := Choose(junk, func(job.Snapshot) bool { return true }, func(Victim) bool { return false }); got != nil {
		t.Errorf("%+v are asked", got)
	}
}

// However many there are, few plans are made.
func TestManyAreAsked(t *testing.T) {
	var held []holding
	for i := range 1000 {
		held = append(held, holding{job.ID(fmt.Sprint("j", i)), time.Duration(i), job.YieldBySuspending, "a:0"})
	}
	plans := 0
	got := Choose(cluster(1, held...), func(s job.Snapshot) bool { plans++; return s.Nodes[0].Procs <= 997 }, func(Victim) bool { return false })
	if len(got) != 3 || got[0].Job != "j0" || got[2].Job != "j2" || plans > 20 {
		t.Errorf("%d plans, asked: %+v", plans, got)
	}
	if got := Choose(cluster(1, held...), func(s job.Snapshot) bool { return s.Nodes[0].Procs <= 700 }, func(Victim) bool { return false }); got != nil {
		t.Errorf("%d are asked, of which the oldest are beyond the bound", len(got))
	}
}

// Who may ask (SV-33): whose turn it is.
func TestWhoMayAsk(t *testing.T) {
	short := &plan.Error{Code: plan.NotEnough}
	for _, test := range []struct {
		name   string
		at     Standing
		failed *plan.Error
		want   bool
	}{
		{"the head of the queue, or nobody waits", Standing{}, short, true},
		{"no node is free", Standing{}, &plan.Error{Code: plan.NoNodes}, true},
		{"it has a place", Standing{}, nil, false},
		{"others wait before it", Standing{Ahead: 1}, short, false},
		{"others wait", Standing{}, &plan.Error{Code: plan.QueueBusy}, false},
		{"it waits for something better", Standing{}, &plan.Error{Code: plan.Delayed}, false},
		{"it can never have a place", Standing{}, &plan.Error{Code: plan.NotEnough, Permanent: true}, false},
		{"it goes round the queue", Standing{Passes: true}, short, false},
		{"inside of a batch system", Standing{Granted: true}, short, false},
		{"it would give way itself", Standing{Gives: true}, short, false},
	} {
		if got := Asks(test.at, test.failed); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

// Who asks and does not come is refused for a while, and nobody else is.
func TestGrudges(t *testing.T) {
	var g Grudges[int]
	if !g.Holds(7, born).IsZero() {
		t.Error("held against who has done nothing")
	}
	g.Note(7, born)
	if got := g.Holds(7, born.Add(sulking-1)); !got.Equal(born.Add(sulking)) {
		t.Errorf("until %v", got)
	}
	if !g.Holds(8, born).IsZero() || !g.Holds(7, born.Add(sulking)).IsZero() {
		t.Error("held against another, or for too long")
	}
	for uid := range 1000 {
		g.Note(uid, born.Add(time.Duration(uid)*sulking))
	}
	if len(g.until) > 2 {
		t.Errorf("%d are remembered", len(g.until))
	}
}
