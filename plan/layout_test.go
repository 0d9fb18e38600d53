package plan

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"remshell/idset"
	"remshell/job"
	"remshell/pin"
	"remshell/test/pintest"
)

// capturedNodes makes a cluster of captured nodes: "xeon-32 power-256@0-15 vm-2!0 vm-2~none". After @
// stand the usable CPUs, after ! the CPUs of another job, and after ~ the binding in the host entry.
func capturedNodes(t *testing.T, words string) job.Snapshot {
	t.Helper()
	var snap job.Snapshot
	for i, word := range strings.Fields(words) {
		word, bind, bound := strings.Cut(word, "~")
		word, busy, _ := strings.Cut(word, "!")
		name, allowed, _ := strings.Cut(word, "@")
		n := job.Node{NodeDef: job.NodeDef{ID: i, Name: fmt.Sprintf("%c", 'a'+i)}}
		n.Topology = pintest.CapturedTopology(t, "../testdata/nodes", name, allowed)
		n.Identity = n.Name
		if bound {
			n.Bind = new(pin.Binding)
			if err := n.Bind.UnmarshalText([]byte(bind)); err != nil {
				t.Fatalf("%s: %v", word, err)
			}
		}
		if busy != "" {
			n.BusyCPUs, _ = pin.ParseCPUs(busy)
			n.Ranks = 1
		}
		snap.Nodes = append(snap.Nodes, n)
	}
	return snap
}

// layoutRequest returns the request that the three options make. Fields that options of the command line
// set outside the layout are set here as well.
func layoutRequest(t *testing.T, n int, mapBy, rankBy, bindTo string) job.Request {
	t.Helper()
	var l pin.Layout
	for _, policy := range []struct {
		text string
		read func([]byte) error
	}{{mapBy, l.Map.UnmarshalText}, {rankBy, l.Rank.UnmarshalText}, {bindTo, l.Bind.UnmarshalText}} {
		if policy.text == "" {
			continue
		}
		if err := policy.read([]byte(policy.text)); err != nil {
			t.Fatalf("%s: %v", policy.text, err)
		}
	}
	app := job.App{N: n, RankNeeds: job.RankNeeds{CPUsPerRank: max(l.Map.Width, l.Bind.Width)}}
	return job.Request{Apps: []job.App{app}, Placement: job.Placement{
		Layout: l, RoundRobin: l.Map.IsCyclic(), Overbook: l.Map.Oversubscribe, NoPin: l.Bind.None}}
}

// nodesAndCPUs formats the node and CPUs of each rank; consecutive ranks on one node are joined.
func nodesAndCPUs(p job.Plan) string {
	ranks := make([]string, p.Size)
	nodes := make([]string, p.Size)
	for _, n := range p.Nodes {
		for _, r := range n.Ranks {
			ranks[r.Rank], nodes[r.Rank] = cmp.Or(idset.Text(r.CPUs), "none"), n.Name
		}
	}
	var b strings.Builder
	for i := range ranks {
		if i == 0 || nodes[i] != nodes[i-1] {
			b.WriteString(" " + nodes[i] + ":")
		}
		b.WriteString(" " + ranks[i])
	}
	return strings.TrimSpace(b.String())
}

// vectorRows yields the rows of a file of test vectors, split into fields.
func vectorRows(t *testing.T, name string, fields int) iter.Seq2[string, []string] {
	t.Helper()
	data, err := os.ReadFile("../testdata/placement/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return func(yield func(string, []string) bool) {
		for line := range strings.Lines(string(data)) {
			line = strings.TrimSpace(line)
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			f := strings.Split(line, "|")
			if len(f) != fields {
				t.Fatalf("%q has %d fields", line, len(f))
			}
			for i := range f {
				f[i] = strings.TrimSpace(f[i])
			}
			if !yield(line, f) {
				return
			}
		}
	}
}

// The policies on captured nodes, as the guide shows them.
func TestLayouts(t *testing.T) {
	rows := 0
	mapped := map[string]bool{"seq": true, "rankfile": true} // package cli/request reads their files
	for line, f := range vectorRows(t, "layouts.txt", 6) {
		n, _ := strconv.Atoi(f[1])
		snap := capturedNodes(t, f[0])
		req, snap := requestFor(layoutRequest(t, n, f[2], f[3], f[4]), snap)
		mapped[req.Layout.Map.Policy] = true
		for i := range req.Nodes {
			req.Nodes[i].CountThreads = req.Layout.Map.Threads
		}
		p, err := Make(req, snap)
		got := nodesAndCPUs(p)
		var failed *Error
		if errors.As(err, &failed) {
			got = "error: " + failed.Text
			for _, r := range failed.Rejected {
				got += "; " + r.Node + ": " + r.Text
			}
		}
		if rows++; got != f[5] {
			t.Errorf("%s\n got %s\nwant %s", line, got, f[5])
		}
	}
	if rows < 40 {
		t.Errorf("%d rows", rows)
	}
	for _, choice := range (pin.Mapping{}).Choices() {
		if word := choice[:strings.IndexAny(choice+":", ":=")]; !mapped[word] {
			t.Errorf("testdata/placement/layouts.txt has no row with --map-by %s", word)
		}
	}
}

// For any request on any node: a plan has every rank once, and uses no CPU of another job and no closed
// CPU. No rank gets a CPU of another rank, unless sharing is allowed or the binding is wider than the
// slots of the rank. No object has more ranks than slots.
func TestLayoutProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	pick := func(words ...string) string { return words[r.IntN(len(words))] }
	placed := 0
	for range 1500 {
		cluster := pick("xeon-32", "xeon-32@0-5,8,16-21", "xeon-32!2,9", "hybrid-22", "hybrid-22!12", "opteron-64", "vm-2 xeon-32", "xeon-32 hybrid-22!0,13")
		mapBy := pick("", "slot", "node", "node:2", "numa", "socket", "l3", "l2", "core", "numa:span", "socket:span", "ppr:1:numa", "ppr:2:l2", "ppr:3:node", "core:2", "l2:2")
		if strings.Trim(mapBy, "abcdefghijklmnopqrstuvwxyz0123456789:") == "" && mapBy != "" {
			mapBy += pick("", "", ":pe=2", ":pe=3", ":oversubscribe", ":hwtcpus")
		}
		rankBy := pick("", "", "slot", "node", "fill", "span", "socket", "numa", "core")
		bindTo := pick("", "", "core", "hwthread", "l2", "l3:if-supported", "numa", "socket", "machine", "none", "numa:2:if-supported")
		n := 1 + r.IntN(20)
		what := fmt.Sprint(cluster, " ", n, " map ", mapBy, " rank ", rankBy, " bind ", bindTo)
		req, snap := requestFor(layoutRequest(t, n, mapBy, rankBy, bindTo), capturedNodes(t, cluster))
		for i := range req.Nodes {
			req.Nodes[i].CountThreads = req.Layout.Map.Threads
		}
		p, err := Make(req, snap)
		if err != nil {
			continue
		}
		placed++
		checkPlan(t, what, req, snap, p)
		if t.Failed() {
			return
		}
	}
	if placed < 500 {
		t.Errorf("only %d plans", placed)
	}
}

// checkPlan checks these properties of a plan.
func checkPlan(t *testing.T, what string, req job.Request, snap job.Snapshot, p job.Plan) {
	t.Helper()
	ranks := make(map[int]bool)
	for _, n := range p.Nodes {
		node := snap.Nodes[n.Node]
		usable := node.Topology.UsableCPUs()
		owner := make(map[int]int)
		for local, r := range n.Ranks {
			if ranks[r.Rank] || r.Local != local {
				t.Errorf("%s: rank %d", what, r.Rank)
			}
			ranks[r.Rank] = true
			if (r.CPUs == nil) != req.NoPin || !slices.IsSorted(r.CPUs) || len(r.Slots) == 0 || !slices.IsSorted(r.Slots) {
				t.Errorf("%s: rank %d has slots %v, CPUs %v", what, r.Rank, r.Slots, r.CPUs)
			}
			for _, cpu := range r.CPUs {
				if !slices.Contains(usable, cpu) || slices.Contains(node.BusyCPUs, cpu) {
					t.Errorf("%s: rank %d has CPU %d", what, r.Rank, cpu)
				}
			}
			narrow := req.Layout.Bind.Level == pin.BySlot || req.Layout.Bind.Level == pin.ByThread
			if !narrow || p.Overbooked {
				continue
			}
			for _, slot := range r.Slots {
				if other, taken := owner[slot]; taken {
					t.Errorf("%s: ranks %d and %d have slot %d", what, other, r.Rank, slot)
				}
				owner[slot] = r.Rank
			}
			if want := max(1, req.Apps[0].CPUsPerRank); len(r.Slots) != want {
				t.Errorf("%s: rank %d has %d slots, not %d", what, r.Rank, len(r.Slots), want)
			}
		}
	}
	if len(ranks) != p.Size || p.Size != req.Apps[0].N {
		t.Errorf("%s: %d ranks", what, len(ranks))
	}
}

// Ranks whose node a rank file names are mapped and bound inside it as usual.
func TestLayoutOfFixedPlacements(t *testing.T) {
	req := layoutRequest(t, 3, "socket", "", "l3")
	req.FixedPlacements = parseFixedPlacements(t, "b a b")
	req, snap := requestFor(req, capturedNodes(t, "xeon-32 xeon-32"))
	p, err := Make(req, snap)
	if got, want := nodesAndCPUs(p), "b: 0-7,16-23 a: 0-7,16-23 b: 8-15,24-31"; err != nil || got != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}

// The memory nodes of ranks.
func TestMemory(t *testing.T) {
	for _, test := range []struct {
		text   string
		noBind bool // bindMem = "no" of the administrator
		want   string
	}{
		{"", false, " [0] [0]"},
		{"", true, " [] []"},
		{"none", false, " [] []"},
		{"local", false, "local [] []"},
		{"interleave", false, "interleave [0 1] [0 1]"},
		{"bind:1", false, " [1] [1]"},
		{"bind:2", false, "the host has no NUMA node 2; it has 0-1"},
		{"local", true, "memory binding is switched off on the host (bindMem = no)"},
		{"none", true, " [] []"},
	} {
		req, snap := requestFor(layoutRequest(t, 2, "", "", ""), capturedNodes(t, "xeon-32"))
		if test.text != "" {
			if err := req.Layout.Mem.UnmarshalText([]byte(test.text)); err != nil {
				t.Fatal(err)
			}
		}
		req.NoMemBind, req.Nodes[0].NoMemBind = test.text == "none", test.noBind
		p, err := Make(req, snap)
		got := ""
		var failed *Error
		switch {
		case errors.As(err, &failed):
			got = failed.Rejected[0].Text
		default:
			ranks := p.Nodes[0].Ranks
			got = fmt.Sprint(ranks[0].MemMode, " ", ranks[0].Mems, " ", ranks[1].Mems)
		}
		if got != test.want {
			t.Errorf("-membind %s, bindMem no %v: %s; want %s", test.text, test.noBind, got, test.want)
		}
	}
}

// Written slots beyond the CPUs let ranks share CPUs, but ranks are not bound to the same CPUs unless the
// user allows it.
func TestOverload(t *testing.T) {
	for _, test := range []struct {
		bindTo string
		over   bool
		want   string
	}{
		{"", false, "a: 0 1 0"},
		{"core", false, "error: --bind-to core would bind several ranks to the same CPUs"},
		{"core", true, "a: 0 1 0"},
		{"core:overload-allowed", false, "a: 0 1 0"},
		{"user:0,1", true, "a: 0 1 0"},
		{"user:0,1,0-1", true, "a: 0 1 0-1"},
		{"none", false, "a: none none none"},
	} {
		req, snap := requestFor(layoutRequest(t, 3, "", "", test.bindTo), capturedNodes(t, "vm-2"))
		req.Nodes[0].Slots, req.Overbook = 4, test.over
		p, err := Make(req, snap)
		got := nodesAndCPUs(p)
		var failed *Error
		if errors.As(err, &failed) {
			got = "error: " + failed.Text
		}
		if got != test.want {
			t.Errorf("--bind-to %s, overbook %v: %s; want %s", test.bindTo, test.over, got, test.want)
		}
	}
}
