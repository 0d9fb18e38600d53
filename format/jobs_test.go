package format

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"remshell/job"
	"remshell/job/column"
)

// testPages returns the ledgers of three nodes, one of which was read under two names.
func testPages() (all []job.LedgerListing, now time.Time) {
	now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	solver := job.Claim{Job: "65a-1", UID: 1000, User: "ann", LauncherHost: "front", Nodes: 3, Size: 5, Since: now.Add(-time.Hour),
		Command: "./solver -i case7"}
	claim := func(c job.Claim, node string, ranks ...job.ClaimedRank) job.Claim {
		c.Node, c.Ranks = node, ranks
		return c
	}
	inner := job.Claim{Job: "65b-2", ParentJob: "65a-1", UID: 1001, LauncherHost: "n1", Node: "n1", Nodes: 1, Size: 1,
		Since: now.Add(3 * time.Second), Exclusive: true, Command: "hostname", Ranks: []job.ClaimedRank{{Rank: 0}}}
	first := []job.Claim{inner, claim(solver, "n1", job.ClaimedRank{Rank: 0, CPUs: []int{0, 4}}, job.ClaimedRank{Rank: 1, CPUs: []int{0, 4}})}
	return []job.LedgerListing{
		{Node: "n1", KeepsQueue: true, Claims: first, Tickets: []job.Ticket{
			{Number: 7, Job: "65c-3", UID: 1000, User: "ann", LauncherHost: "front", Size: 8, Since: now.Add(-90 * time.Second), Summary: "./post"},
			{Number: 9, Job: "65d-4", UID: 1002, LauncherHost: "front", Since: now, Summary: "./all"},
		}},
		{Node: "alias", Claims: first},
		{Node: "n2", Claims: []job.Claim{claim(solver, "n2", job.ClaimedRank{Rank: 2, CPUs: []int{1}}, job.ClaimedRank{Rank: 3, CPUs: []int{2}})}},
	}, now
}

func TestJobs(t *testing.T) {
	all, now := testPages()
	l := NewLedger(all, now)
	compareGolden(t, "jobs", l.FormatJobs())
	compareGolden(t, "queue", l.FormatQueue())
	for id, file := range map[job.ID]string{"65a-1": "status-runs", "65b-2": "status-inside", "65c-3": "status-waits"} {
		text, found := l.FormatStatus(job.JobRef{Job: id})
		if !found {
			t.Errorf("no job %s", id)
		}
		compareGolden(t, file, text)
	}
	if text, found := l.FormatStatus(job.JobRef{Job: "65a"}); found {
		t.Errorf("a part of a name is no name: %q", text)
	}
}

// Merging as many claims of one user and node as a ledger can hold takes linear time.
func TestManyClaimsOfOneJob(t *testing.T) {
	if testing.Short() {
		t.Skip("needs 640 MB; make test runs it")
	}
	var all []job.LedgerListing
	rank := 0
	for range 4 {
		p := job.LedgerListing{Node: "n1"}
		for range 4096 {
			c := job.Claim{Job: "j", UID: 7, Node: "n1", Nodes: 1, Size: 1}
			for range 16 {
				c.Ranks = append(c.Ranks, job.ClaimedRank{Rank: rank, CPUs: []int{rank % 64}})
				p.States = append(p.States, job.RankState{Rank: rank, Phase: "running"})
				rank++
			}
			p.Claims = append(p.Claims, c)
		}
		all = append(all, p)
	}
	began := time.Now()
	l := NewLedger(all, began)
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
	if n := l.jobs[0].Nodes[0]; len(n.Ranks) != rank || len(n.CPUs) != 64 || len(l.rankStates) != rank || !slices.IsSorted(n.Ranks) {
		t.Errorf("%d ranks, %d CPUs, %d states", len(n.Ranks), len(n.CPUs), len(l.rankStates))
	}
}

// A claim of another user under the same job ID is not merged with the job's claims.
func TestTheSameNameOfTwoUsers(t *testing.T) {
	all, now := testPages()
	all[2].Claims = append(all[2].Claims, job.Claim{Job: "65a-1", UID: 1002, User: "ann", Node: "n1", Nodes: 1, Size: 1,
		Since: now.Add(-2 * time.Hour), Command: "forged"})
	text, _ := NewLedger(all, now).FormatStatus(job.JobRef{Job: "65a-1"})
	if !strings.Contains(text, "user     ann(1002)") || !strings.Contains(text, "command  ./solver -i case7\n  n1  ranks 0-1") {
		t.Errorf("%s", text)
	}
	of := job.JobRef{Job: "65a-1", User: "1002"}
	if text, _ = NewLedger(all, now).FormatStatus(of); !strings.HasPrefix(text, "job      65a-1 runs\nuser     ann(1002)") || strings.Count(text, "user ") != 1 {
		t.Errorf("of one user: %s", text)
	}
	if text := NewLedger(all, now).FormatJSON(of); strings.Count(text, `"uid"`) != 1 || !strings.Contains(text, "forged") {
		t.Errorf("of one user: %s", text)
	}
}

func TestNoJobs(t *testing.T) {
	l := NewLedger([]job.LedgerListing{{Node: "n1", KeepsQueue: true}}, time.Now())
	if l.FormatJobs() != "no jobs\n" || l.FormatQueue() != "nobody waits\n" {
		t.Errorf("%q, %q", l.FormatJobs(), l.FormatQueue())
	}
	if got, want := l.FormatJSON(job.JobRef{}), `{"version":1,"jobs":[],"waiting":[]}`+"\n"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestJobsForPrograms(t *testing.T) {
	all, now := testPages()
	l := NewLedger(all, now)
	var got struct {
		Jobs    []liveJob
		Waiting []queueRow
	}
	if err := json.Unmarshal([]byte(l.FormatJSON(job.JobRef{})), &got); err != nil || len(got.Jobs) != 2 || len(got.Waiting) != 2 {
		t.Fatalf("%v, %+v", err, got)
	}
	want := []liveNode{{Node: "n1", Ranks: []int{0, 1}, CPUs: []int{0, 4}}, {Node: "n2", Ranks: []int{2, 3}, CPUs: []int{1, 2}}}
	if j := got.Jobs[0]; !reflect.DeepEqual(j.Nodes, want) || j.Missing != 1 || j.Ranks != 5 {
		t.Errorf("%+v", j)
	}
	if err := json.Unmarshal([]byte(l.FormatJSON(job.JobRef{Job: "65d-4"})), &got); err != nil || len(got.Jobs) != 0 || len(got.Waiting) != 1 || got.Waiting[0].Position != 2 {
		t.Errorf("%v, %+v", err, got)
	}
}

// Idle claims show their reason, and standby nodes are not counted as ranks (survive.md SV-2, SV-7).
func TestResting(t *testing.T) {
	claim := func(node string, rank int, why job.IdleReason) job.LedgerListing {
		c := job.Claim{Job: "j", Node: node, Nodes: 2, Size: 2, Ranks: []job.ClaimedRank{{Rank: rank, CPUs: []int{rank}}}, Command: "x", IdleReason: why, Reported: []int64{column.Running}}
		if why != "" {
			c.Reported = []int64{column.Idle}
		}
		return job.LedgerListing{Node: node, Claims: []job.Claim{c}}
	}
	for _, test := range []struct {
		pages []job.LedgerListing
		want  string
	}{
		{[]job.LedgerListing{claim("n1", 0, ""), claim("n2", 1, "")}, " 2 n[1-2] 2 x"},
		{[]job.LedgerListing{claim("n1", 0, ""), claim("n2", 1, ""), claim("n3", 2, job.IdleStandby)}, " 2 n[1-3] 3 (standby: n3) x"},
		{[]job.LedgerListing{claim("n1", 0, ""), claim("n3", 2, job.IdleStandby)}, " 2 n[1,3]+1 2 (standby: n3) x"},
		{[]job.LedgerListing{claim("n1", 0, job.IdleRestarting), claim("n2", 1, job.IdleRestarting), claim("n3", 2, job.IdleStandby)}, " 2 n[1-3] 3 (restarting) x"},
		{[]job.LedgerListing{claim("n1", 0, "lazy"), claim("n2", 1, "lazy")}, " 2 n[1-2] 2 (idle) x"},
	} {
		l := NewLedger(test.pages, time.Now())
		if got := strings.Join(strings.Fields(l.FormatJobs()), " "); !strings.HasSuffix(got, test.want) {
			t.Errorf("%s, want %s", got, test.want)
		}
		if text, _ := l.FormatStatus(job.JobRef{Job: "j"}); strings.Contains(text, "n3  standby") != strings.Contains(test.want, "3]") {
			t.Errorf("the spare is not told:\n%s", text)
		}
	}
}

// Depth, shape and node set have columns if a job has them (aprun.md 7). Claims of spawned ranks and standby nodes do
// not count.
func TestExtents(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	wide := job.Claim{Job: "a", User: "u", LauncherHost: "f", Node: "n1", Nodes: 1, Size: 4, CPUsPerRank: 2, ExactPerNode: 4, NodeSet: "x\x1b[2J+y", Since: now.Add(-time.Hour), Command: "./wide"}
	spawned, spare := wide, wide
	spawned.CPUsPerRank, spawned.ExactPerNode, spawned.NodeSet, spawned.Since, spawned.Size = 0, 1, "", now, 5
	spare.Node, spare.CPUsPerRank, spare.ExactPerNode, spare.IdleReason, spare.Since = "n2", 0, 9, job.IdleStandby, now.Add(-2*time.Hour)
	plain := job.Claim{Job: "b", User: "u", Node: "n3", Nodes: 1, Size: 1, Since: now, Command: "./plain"}
	tickets := []job.Ticket{{Number: 1, Job: "c", User: "u", LauncherHost: "f", Size: 2, CPUs: 3, Since: now, Summary: "./waits", NodeSet: "ONEOF:rack"}, {Number: 2, Job: "d", User: "u", CPUs: 1, Since: now}}
	l := NewLedger([]job.LedgerListing{{Node: "n1", KeepsQueue: true, Claims: []job.Claim{spawned, wide}, Tickets: tickets}, {Node: "n3", Claims: []job.Claim{plain}}}, now)
	compareGolden(t, "jobs-extents", l.FormatJobs())
	compareGolden(t, "queue-extents", l.FormatQueue())
	runs, _ := l.FormatStatus(job.JobRef{Job: "a"})
	waits, _ := l.FormatStatus(job.JobRef{Job: "c"})
	compareGolden(t, "status-extents", runs+waits)
	for want, there := range map[string]bool{`"ranks":5,`: true, `"depth":2,"shape":4,"node_set":"x`: true, `"depth":3,"node_set":"ONEOF:rack"`: true, `"depth":1`: false, `"shape":1`: false, "\x1b": false} {
		if got := l.FormatJSON(job.JobRef{}); strings.Contains(got, want) != there {
			t.Errorf("%s: %v, of %s", want, !there, got)
		}
	}
	alone, behind := job.LedgerListing{Node: "n2", Claims: []job.Claim{spare}}, job.LedgerListing{Node: "n1", Claims: []job.Claim{wide}}
	if l := NewLedger([]job.LedgerListing{alone}, now); strings.Contains(l.FormatJobs(), "SHAPE") || strings.Contains(l.FormatJSON(job.JobRef{}), "shape") {
		t.Errorf("a spare is in the shape of the job:\n%s", l.FormatJobs())
	}
	if l := NewLedger([]job.LedgerListing{alone, behind}, now); !strings.Contains(l.FormatJSON(job.JobRef{}), `"shape":4`) {
		t.Errorf("the shape of the job is that of a spare:\n%s", l.FormatJSON(job.JobRef{}))
	}
}

// Claims of spawned ranks belong to the job.
func TestSpawnedRanksAreListed(t *testing.T) {
	all, now := testPages()
	spawned := job.Claim{Job: "65a-1", UID: 1000, User: "ann", LauncherHost: "front", Nodes: 2, Size: 7, Since: now, Command: "./child"}
	for i, rank := range []int{5, 6} {
		c := spawned
		c.Node, c.Ranks = []string{"n2", "n1"}[i], []job.ClaimedRank{{Rank: rank, CPUs: []int{6 + i}}}
		all[2-2*i].Claims = append([]job.Claim{c}, all[2-2*i].Claims...)
	}
	text, _ := NewLedger(all, now).FormatStatus(job.JobRef{Job: "65a-1"})
	for _, want := range []string{"command  ./solver -i case7\n", "n1  ranks 0-1,6", "n2  ranks 2-3,5", "7"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// A job is shown as suspended if it is stopped (--suspend, ^Z, a batch system) and no rank runs on the nodes that were
// read.
func TestStoppedJobsAreSuspended(t *testing.T) {
	claim := func(node string, change func(*job.Claim)) job.LedgerListing {
		c := job.Claim{Job: "j", User: "ann", UID: 7, Node: node, Nodes: 2, Size: 2, LauncherHost: "front", LauncherPID: 4711, Command: "./x", Ranks: []job.ClaimedRank{{}}}
		change(&c)
		return job.LedgerListing{Node: node, Claims: []job.Claim{c}}
	}
	stopped, running := func(c *job.Claim) { c.Reported = []int64{column.Suspended} }, func(c *job.Claim) { c.Reported = []int64{column.Running} }
	spare := func(c *job.Claim) { c.IdleReason, c.Reported = job.IdleStandby, []int64{column.Idle} }
	for _, test := range []struct {
		name string
		of   []func(*job.Claim)
		want bool
	}{
		{"all are stopped", []func(*job.Claim){stopped, stopped}, true},
		{"one runs", []func(*job.Claim){stopped, running}, false},
		{"one runs, told first", []func(*job.Claim){running, stopped}, false},
		{"a spare has none", []func(*job.Claim){stopped, spare}, true},
		{"all run", []func(*job.Claim){running, running}, false},
	} {
		l := NewLedger([]job.LedgerListing{claim("a", test.of[0]), claim("b", test.of[1])}, time.Now())
		status, _ := l.FormatStatus(job.JobRef{Job: "j"})
		if got := strings.Contains(l.FormatJobs(), "(suspended) "); got != test.want || strings.Contains(status, "job      j is suspended") != test.want ||
			strings.Contains(l.FormatJSON(job.JobRef{}), `"stopped":true`) != test.want {
			t.Errorf("%s:\n%s%s%s", test.name, l.FormatJobs(), status, l.FormatJSON(job.JobRef{}))
		}
	}
}

// A gang whose ranks are stopped waits for its slice, unless the rule lets it run: then somebody has suspended it.
func TestGangsWaitForTheirSlices(t *testing.T) {
	claim := func(id job.ID, party int, age time.Duration, state int64, now time.Time) job.Claim {
		return job.Claim{Job: id, User: "ann", UID: 7, Node: "a", Nodes: 1, Size: 1, Since: now.Add(-age), Command: "./x", Ranks: []job.ClaimedRank{{CPUs: []int{5}}},
			Gang: &job.Gang{Party: party, GangTerms: job.DefaultGangTerms}, Reported: []int64{state}}
	}
	const s, hour = time.Second, time.Hour
	const suspended = -2 // stopped, and its helper says that it is suspended
	for _, test := range []struct {
		name  string
		now   time.Duration // since a slice of party 0 of an even cycle began
		age   time.Duration
		state int64
		alone bool
		want  string // in the row of the gang of party 2
	}{
		{"slice of the other", 5 * s, hour, column.Suspended, false, "2      50 %   (waiting for its slice) ./x"},
		{"own slice", 25 * s, hour, column.Suspended, false, "2      50 %   (suspended) ./x"},
		{"own slice has just begun", 20*s + s/2, hour, column.Suspended, false, "2      50 %   (waiting for its slice) ./x"},
		{"before its first slice", 25 * s, 9 * s, column.Suspended, false, "2      50 %   (waiting for its slice) ./x"},
		{"suspended in the slice of the other", 5 * s, hour, suspended, false, "2      50 %   (suspended) ./x"},
		{"suspended when its slice has just begun", 20*s + s/2, hour, suspended, false, "2      50 %   (suspended) ./x"},
		{"suspended before its first slice", 25 * s, 9 * s, suspended, false, "2      50 %   (suspended) ./x"},
		{"it runs", 25 * s, hour, column.Running, false, "2      50 %   ./x"},
		{"alone", 5 * s, hour, column.Suspended, true, "2      100 %  (suspended) ./x"},
	} {
		now := time.Unix(800_000, 0).Add(test.now)
		mine := claim("mine", 2, test.age, test.state, now)
		if test.state == suspended {
			mine.Reported, mine.Suspended = []int64{column.Suspended}, true
		}
		claims := []job.Claim{mine, claim("other", 0, hour, column.Running, now)}
		if test.alone {
			claims = claims[:1]
		}
		l := NewLedger([]job.LedgerListing{{Node: "a", Claims: claims}}, now)
		status, _ := l.FormatStatus(job.JobRef{Job: "mine"})
		if !strings.Contains(l.FormatJobs(), test.want) || strings.Contains(status, "waits for its slice\n") != strings.Contains(test.want, "waiting") {
			t.Errorf("%s:\n%s%s", test.name, l.FormatJobs(), status)
		}
	}
}

// Another user may make very many claims of gangs for the same CPUs. The list is still made, and names few of them.
func TestManyGangsOnACPU(t *testing.T) {
	cpus := make([]int, 64)
	for i := range cpus {
		cpus[i] = i
	}
	var claims []job.Claim
	for i := range 4096 {
		claims = append(claims, job.Claim{Job: job.ID(fmt.Sprint("j", i)), User: "eve", UID: 8, Node: "a", Nodes: 1, Size: 1, Command: "x", Ranks: []job.ClaimedRank{{CPUs: cpus}},
			Gang: &job.Gang{Party: i % 16, GangTerms: job.GangTerms{Parties: 16, Slice: time.Second}}})
	}
	began := time.Now()
	l := NewLedger([]job.LedgerListing{{Node: "a", Claims: claims}}, began)
	if took := time.Since(began); took > 5*time.Minute {
		t.Errorf("the list of 4096 gangs on 64 CPUs took %v", took)
	}
	status, _ := l.FormatStatus(job.JobRef{Job: "j7"})
	if want := "gang     the job runs 6 % of the time, in turns of 1s, and shares CPUs with 30 jobs: j0 j1 j10 j11 and 26 more\n"; !strings.Contains(status, want) {
		t.Errorf("no %q in\n%s", want, status)
	}
}

// Process IDs of mpiexec, with its host, and of the ranks are shown.
func TestJobsHaveProcessIDs(t *testing.T) {
	p := job.LedgerListing{Node: "n1", Claims: []job.Claim{{Job: "j", User: "ann", UID: 7, Node: "n1", Nodes: 1, Size: 2, LauncherHost: "front", LauncherPID: 4711, Command: "./x"}},
		States: []job.RankState{{Rank: 0, PID: 815, Phase: "running"}, {Rank: 1, Phase: "starting"}}}
	l := NewLedger([]job.LedgerListing{p}, time.Now())
	status, _ := l.FormatStatus(job.JobRef{Job: "j"})
	for text, want := range map[string]string{l.FormatJobs(): "  front:4711  ", status: "from     front, pid 4711\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if want := "rank  node  pid  state     CPU     waits in\n0     n1    815  running   0.00 s\n1     n1         starting  0.00 s\n"; !strings.HasSuffix(status, want) {
		t.Errorf("no\n%s in\n%s", want, status)
	}
	var read struct {
		Jobs []struct {
			MpiexecPID int `json:"mpiexec_pid"`
		}
		Ranks []struct{ PID int }
	}
	if err := json.Unmarshal([]byte(l.FormatJSON(job.JobRef{Job: "j"})), &read); err != nil || read.Jobs[0].MpiexecPID != 4711 || read.Ranks[0].PID != 815 {
		t.Errorf("%+v, %v", read, err)
	}
}

// The values of a column are combined over a job's nodes. A node that was read under two names counts once, one without a
// value does not count, and a hostile node makes neither a negative sum nor more than one cell.
func TestReportedColumn(t *testing.T) {
	defer func(all []*column.Column) { column.All = all }(column.All)
	column.All = []*column.Column{&column.State, {Name: "pages", Title: "PAGES", Max: math.MaxInt64 - 1,
		Combine: func(a, b int64) int64 { return a + b }, Text: func(v int64) string { return strconv.FormatInt(v, 10) + "\x1b\n" }}}
	node := func(read, name string, rank int, reported ...int64) job.LedgerListing {
		return job.LedgerListing{Node: read, Claims: []job.Claim{{Job: "j", User: "ann", UID: 7, Node: name, Nodes: 2, Size: 2, LauncherHost: "front", Command: "x", Ranks: []job.ClaimedRank{{Rank: rank}}, Reported: reported}}}
	}
	for _, test := range []struct {
		name       string
		pages      []job.LedgerListing
		cell, json string // empty: the column, or the value, is left out
	}{
		{"two nodes", []job.LedgerListing{node("n1", "n1", 0, column.Running, 3), node("n2", "n2", 1, column.Running, 4)}, "7\\x1b ", `"reported":{"pages":7}`},
		{"one node under two names", []job.LedgerListing{node("n1", "n1", 0, column.Running, 3), node("alias", "n1", 0, column.Running, 3)}, "3\\x1b ", `"reported":{"pages":3}`},
		{"one node does not know", []job.LedgerListing{node("n1", "n1", 0, column.Running, column.None), node("n2", "n2", 1, column.Running, 4)}, "4\\x1b ", `"reported":{"pages":4}`},
		{"a value of 0", []job.LedgerListing{node("n1", "n1", 0, column.Running, 0)}, "0\\x1b ", `"reported":{"pages":0}`},
		{"no node knows", []job.LedgerListing{node("n1", "n1", 0, column.Running, column.None), node("n2", "n2", 1)}, "", ""},
		{"hostile nodes", []job.LedgerListing{node("n1", "n1", 0, column.Running, math.MaxInt64-1), node("n2", "n2", 1, column.Running, math.MaxInt64-1)}, "9223372036854775807\\x1b ", `"reported":{"pages":9223372036854775807}`},
	} {
		l := NewLedger(test.pages, time.Now())
		table, text := l.FormatJobs(), l.FormatJSON(job.JobRef{})
		if !strings.Contains(table, "  "+test.cell) || strings.Contains(table, "PAGES") != (test.cell != "") || strings.Count(table, "\n") != 2 {
			t.Errorf("%s: want %q in\n%s", test.name, test.cell, table)
		}
		if !strings.Contains(text, test.json) || strings.Contains(text, "reported") != (test.json != "") {
			t.Errorf("%s: want %s in %s", test.name, test.json, text)
		}
	}
}

// The settings of nodes stand below the jobs. Nodes with equal ones share a line.
func TestFormatSettings(t *testing.T) {
	most := 2
	drain := job.Drain{Since: time.Date(2026, 11, 27, 11, 40, 0, 0, time.UTC), Reason: "a\x1bb"}
	page := func(node string, s job.NodeSettings) job.LedgerListing {
		return job.LedgerListing{Node: node, Settings: s}
	}
	l := NewLedger([]job.LedgerListing{page("n1", job.NodeSettings{Drain: drain}), page("n2", job.NodeSettings{}),
		page("n3", job.NodeSettings{Drain: drain, Allow: job.Allow{Users: []string{"alice"}, MaxProcs: &most}})}, time.Now())
	want := "no jobs\nn[1,3] was drained by root on 2026-11-27 11:40: a\\x1bb\nn3 runs only jobs of users alice, and at most 2 processes at a time (set by mpijob allow)\n"
	if got := l.FormatJobs(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	want = `"settings":[{"node":"n1","drained_since":"2026-11-27T11:40:00Z","drain_reason":"a\u001bb"},{"node":"n3","drained_since":"2026-11-27T11:40:00Z","drain_reason":"a\u001bb","users":["alice"],"maxproc":2}]`
	if got := l.FormatJSON(job.JobRef{}); !strings.Contains(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
}
