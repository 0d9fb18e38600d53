package node_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"remshell/job"
	"remshell/launch/node"
	"remshell/launch/node/nodetest"
	"remshell/pmiserver/fence"
	"remshell/wire"
)

// The table of TRUST-4. Messages of features are in the tests of the features.
var table = []struct {
	Kind                   string
	Request                wire.Message
	Stages, Again, Foreign string
}{
	{"Hello", nil, "ok twice twice twice twice twice twice twice", "twice", ""},
	{"NodeInfo", nil, "early twice twice twice twice twice twice twice", "", ""},
	{"DecisionLocked", &wire.LockDecision{}, "early ok ok ok ok ok ok dropped", "unasked", ""},
	{"Surveyed", &wire.Survey{}, "early ok ok ok ok ok ok dropped", "unasked", ""},
	{"QueuePosition", &wire.Enqueue{}, "early ok ok ok ok ok ok dropped", "ok", ""},
	{"LedgerListed", &wire.ListLedger{}, "early ok ok ok ok ok ok dropped", "unasked", ""},
	{"JobSignaled", &wire.SignalJob{}, "early ok ok ok ok ok ok dropped", "unasked", ""},
	{"Evicted", &wire.Evict{}, "early ok ok ok ok ok ok dropped", "unasked", ""},
	{"MarkWritten", &wire.WriteMark{}, "early ok ok ok ok ok ok dropped", "unasked", ""},
	{"MarksRead", &wire.ReadMarks{}, "early ok ok ok ok ok ok dropped", "unasked", ""},
	{"Diagnosed", &wire.Diagnose{}, "early ok ok ok ok ok ok dropped", "unasked", ""},
	{"ProbePortOpened", &wire.OpenProbePort{}, "early ok ok ok ok ok ok dropped", "unasked", ""},
	{"PeersProbed", &wire.ProbePeers{}, "early ok ok ok ok ok ok dropped", "unasked", ""},
	{"ControlReply", &wire.ControlRequest{}, "early ok ok ok ok ok ok dropped", "unasked", ""},
	{"ControlRequest", nil, "early early early early ok dropped dropped dropped", "the host sent a ControlRequest before mpiexec had answered the previous one", ""},
	{"ClaimsChanged", &wire.WatchClaims{}, "early ok ok ok ok ok ok dropped", "ok", ""},
	{"Prepared", nil, "early unasked ok unasked unasked unasked unasked dropped", "unasked", ""},
	{"Refused", nil, "early unasked ok unasked unasked unasked unasked dropped", "unasked", ""},
	{"ClaimConflict", nil, "early unasked ok unasked unasked unasked unasked dropped", "unasked", ""},
	{"Started", nil,
		"early foreign early early ended ended ended dropped", "", "foreign"},
	{"Data", nil,
		"foreign foreign early early ok ok ok ok", "ok", "foreign"},
	{"Credit", nil, "early foreign early early ok ok dropped dropped", "ok", "foreign"},
	{"Exited", nil,
		"early foreign early early ok ok ended dropped", "ended", "foreign"},
	{"PMIReport", nil,
		"early foreign early early ok ok ended dropped", "ok", "foreign"},
	{"Fence", nil, "early unasked early early ok dropped late dropped", "fences", ""},
	{"RankMapRequest", nil, "early early early early ok dropped dropped dropped", "ID 1", ""},
	{"HelperSignaled", nil, "early early early early ok ok ok dropped", "twice", ""},
	{"ProcessesGone", nil, "early early early early ok ok ok dropped", "twice", ""},
	{"Drained", nil,
		"early early early early unended unended twice dropped", "", "unended"},
	{"AttemptReady", &wire.NextAttempt{}, "early ok ok ok ok ok ok ok", "unasked", ""},
	{"Log", nil, "early ok ok ok ok ok ok dropped", "ok", ""},
	{"Ping", nil, "early ok ok ok ok ok ok dropped", "ok", ""},
}

func TestAdmit(t *testing.T) {
	for _, row := range table {
		nodetest.CheckStages(t, nodetest.StageVerdicts(row))
	}
}

// Every kind that helpers send has a row in the table. A kind that only mpiexec sends is a violation at
// every stage.
func TestEveryKindHasARow(t *testing.T) {
	rows := make(map[string]bool)
	for _, row := range table {
		if rows[row.Kind] || wire.NameOf(nodetest.Maker(row.Kind)(0)) != row.Kind {
			t.Errorf("row %s is defined twice, or makes something else", row.Kind)
		}
		rows[row.Kind] = true
	}
	for _, k := range wire.Kinds() {
		if k.Sender != wire.Launcher {
			if k.Example == nil && !rows[k.Name] {
				t.Errorf("the table has no row for %s", k.Name)
			}
			continue
		}
		for _, stage := range nodetest.Stages[1 : len(nodetest.Stages)-1] {
			g, _ := nodetest.NewStage(t, stage)
			if got := nodetest.Judge(g, k.New()); got != "the host sent the message "+k.Name+", which only mpiexec may send" {
				t.Errorf("%s, %s: %s", k.Name, stage, got)
			}
		}
	}
}

// A rank, count or number out of range is a violation that names it and its value. The bound itself is
// valid.
func TestAdmitValues(t *testing.T) {
	exit := func(code, signal int) wire.Message {
		return &wire.Exited{Exit: job.Exit{Rank: nodetest.Own, Code: code, Signal: signal}}
	}
	abort := func(code int) wire.Message {
		return &wire.PMIReport{Rank: nodetest.Own, Event: wire.PMIAborted, Code: code}
	}
	for _, test := range []struct {
		m    wire.Message
		want string
	}{
		{exit(255, 0), "ok"}, {exit(256, 0), "the host sent an Exited message with an impossible value: code 256"}, {exit(-1, 0), "the host sent an Exited message with an impossible value: code -1"},
		{exit(-256, 0), "the host sent an Exited message with an impossible value: code -256"}, {exit(1<<32, 0), "the host sent an Exited message with an impossible value: code 4294967296"},
		{exit(0, 64), "ok"}, {exit(0, 65), "the host sent an Exited message with an impossible value: signal 65"}, {exit(0, -9), "the host sent an Exited message with an impossible value: signal -9"},
		{exit(3, 9), "the host sent an Exited message with an impossible value: code 3 and signal 9"},
		{abort(255), "ok"}, {abort(256), "the host sent a PMIReport message with an impossible value: code 256"}, {abort(-1), "the host sent a PMIReport message with an impossible value: code -1"},
		{&wire.PMIReport{Rank: nodetest.Own, Event: 7}, "the host sent a PMIReport message with an impossible value: event 7"},
		{&wire.PMIReport{Rank: -1, Event: wire.PMIBarrierBroken}, "ok"},
		{&wire.PMIReport{Rank: -1, Event: wire.PMIAborted}, "the host sent a message about rank -1, which does not run there"},
		{&wire.Started{Rank: nodetest.Later}, "the host sent a Started message with an impossible value: PID 0"},
		{&wire.Started{Rank: nodetest.Later, PID: -1}, "the host sent a Started message with an impossible value: PID -1"},
		{&wire.Started{Rank: nodetest.Later, Err: "none"}, "ok"},
		{&wire.Exited{Exit: job.Exit{Rank: nodetest.Later}}, "the host sent the message Exited before the start"},
		{&wire.Exited{Exit: job.Exit{Rank: 1 << 40}}, "the host sent a message about rank 1099511627776, which does not run there"},
		{&wire.Data{Rank: nodetest.Own, Stream: 3}, "the host sent a Data message with an impossible value: stream 3"},
		{&wire.Data{Rank: nodetest.Own, Stream: -1}, "the host sent a Data message with an impossible value: stream -1"},
		{&wire.Data{Rank: nodetest.Own, Stream: wire.Stdin, Bytes: []byte("x")}, "the host sent a Data message with an impossible value: stream 0"},
		{&wire.Data{Rank: nodetest.Own, Stream: wire.Stderr, Bytes: make([]byte, 100)}, "ok"},
		{&wire.Data{Rank: nodetest.Own, Stream: wire.Stderr, Bytes: make([]byte, 101)}, "the host sent more output than mpiexec allowed"},
		{&wire.Credit{Rank: nodetest.Own, Bytes: 1}, "the host sent a Credit message with an impossible value: bytes 1"},
		{&wire.Credit{Rank: nodetest.Own, Bytes: -1}, "the host sent a Credit message with an impossible value: bytes -1"},
		{&wire.Credit{Rank: nodetest.Own, Stream: wire.Stdout}, "the host sent a Credit message with an impossible value: stream 1"},
		{&wire.Fence{ID: "g/1"}, "the host opened 2 fences at once"}, {&wire.Fence{ID: "g/2"}, "the host opened 3 fences at once"},
		{&wire.Fence{ID: "g/-1"}, `the host sent a Fence message with an impossible value: ID "g/-1"`}, {&wire.Fence{ID: "g/00"}, `the host sent a Fence message with an impossible value: ID "g/00"`},
		{&wire.Fence{ID: "g"}, `the host sent a Fence message with an impossible value: ID "g"`}, {&wire.Fence{ID: "h/0"}, "the host sent a reply that mpiexec had not requested"},
		{&wire.RankMapRequest{}, "the host sent a RankMapRequest message with an impossible value: ID 0"},
		{&wire.Drained{}, "the host sent the message Drained before it reported the end of rank 4"},
	} {
		g, _ := nodetest.NewStage(t, "running")
		_, err := g.CheckMessage(test.m)
		if got := fmt.Sprint(err); got != test.want && !(err == nil && test.want == "ok") {
			t.Errorf("%s %+v: %s, want %s", wire.NameOf(test.m), test.m, got, test.want)
		}
	}
}

// Every piece of output needs credit, and a stream that has ended may have no more.
func TestAdmitOutput(t *testing.T) {
	g, _ := nodetest.NewStage(t, "running")
	out := func(n int) string {
		return nodetest.Judge(g, &wire.Data{Rank: nodetest.Own, Stream: wire.Stdout, Bytes: make([]byte, n)})
	}
	for i, step := range []struct {
		n    int
		want string
	}{{60, "ok"}, {40, "ok"}, {1, "much"}} {
		if got := out(step.n); got != step.want {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
	}
	g, _ = nodetest.NewStage(t, "running")
	out(100)
	g.NoteSent(&wire.Credit{Rank: nodetest.Own, Stream: wire.Stdout, Bytes: 50})
	if got := []string{out(50), out(0), out(0)}; strings.Join(got, " ") != "ok ok much" {
		t.Errorf("after credit: %q", got)
	}
}

// A rank may report as read what it was sent, also in parts, and no more.
func TestAdmitCredit(t *testing.T) {
	g, _ := nodetest.NewStage(t, "running")
	g.NoteSent(&wire.Data{Rank: nodetest.Own, Bytes: make([]byte, 10)})
	credit := func(n int) string { return nodetest.Judge(g, &wire.Credit{Rank: nodetest.Own, Bytes: n}) }
	if got := []string{credit(4), credit(6), credit(1)}; strings.Join(got, ",") != "ok,ok,bytes 1" {
		t.Errorf("%q", got)
	}
	end := &wire.Data{Rank: nodetest.Own, Stream: wire.Stdin}
	if got := []string{nodetest.Judge(g, end), nodetest.Judge(g, end)}; strings.Join(got, ",") != "ok,unasked" {
		t.Errorf("end of input: %q", got)
	}
}

// The rendezvous is an address of the node that has rank 0, with a port.
func TestAdmitRendezvous(t *testing.T) {
	prepared := func(root int, compat ...string) *node.Validator {
		g, _ := nodetest.NewStage(t, "greeted")
		g.NoteSent(&wire.Prepare{Group: wire.Group{Name: "g", NodeCount: 2}, Node: wire.GroupNode{Address: "n1-ib"}, Ranks: []job.RankPlan{{Rank: root}}, Process: wire.Process{Compat: compat}})
		return g
	}
	for rendezvous, want := range map[string]string{
		"": "ok", "10.0.0.1:1": "ok", "[fe80::1]:65535": "ok", "n1:80": "ok", "n1.example:80": "ok", "one:80": "ok", "n1-ib:80": "ok",
		"n2:80": `meeting point "n2:80"`, "n1:0": `meeting point "n1:0"`, "n1:65536": `meeting point "n1:65536"`, "n1": `meeting point "n1"`, ":80": `meeting point ":80"`, "n1:x": `meeting point "n1:x"`,
		"n1;id:80": `meeting point "n1;id:80"`,
	} {
		if got := nodetest.Judge(prepared(0, "torch"), &wire.Prepared{Group: "g", Rendezvous: rendezvous}); got != want {
			t.Errorf("%q: %s, want %s", rendezvous, got, want)
		}
	}
	if got := nodetest.Judge(prepared(1, "torch"), &wire.Prepared{Group: "g", Rendezvous: "n1:80"}); got != "foreign" {
		t.Errorf("from a node without rank 0: %s", got)
	}
	if got := nodetest.Judge(prepared(0), &wire.Prepared{Group: "g", Rendezvous: "n1:80"}); got != "unasked" {
		t.Errorf("without being asked: %s", got)
	}
}

// Invalid exit codes in reports of failed starts become 125 (TRUST-33).
func TestStartCodes(t *testing.T) {
	for code, want := range map[int]int{125: 125, 126: 126, 127: 127, 0: 125, 1: 125, 128: 125, 256: 125, -1: 125, 1 << 32: 125} {
		g, _ := nodetest.NewStage(t, "asked")
		m, err := g.CheckMessage(&wire.Refused{Group: "g", Code: code})
		if err != nil || m.(*wire.Refused).Code != want {
			t.Errorf("Refused %d: %+v, %v", code, m, err)
		}
		g, _ = nodetest.NewStage(t, "running")
		if m, err = g.CheckMessage(&wire.Started{Rank: nodetest.Later, Err: "no", Code: code}); err != nil || m.(*wire.Started).Code != want {
			t.Errorf("Started %d: %+v, %v", code, m, err)
		}
	}
}

// A group has one open PMI barrier at a time, and a node at most 64 open requests.
func TestAdmitOneFenceAtATimeAndSoManyRequests(t *testing.T) {
	g, _ := nodetest.NewStage(t, "running")
	for i := range 3 {
		if got := nodetest.Judge(g, &wire.Fence{ID: fmt.Sprint("g/", i)}); got != "ok" {
			t.Errorf("fence %d: %s", i, got)
		}
		g.NoteFenceResultSent(fence.ID{Members: "g"})
	}
	for id := range node.MaxUnanswered {
		if got := nodetest.Judge(g, &wire.RankMapRequest{ID: id + 1, Group: "g"}); got != "ok" {
			t.Fatalf("request %d: %s", id, got)
		}
	}
	g.NoteSent(&wire.RankMap{ID: 1})
	next := func(id int) string { return nodetest.Judge(g, &wire.RankMapRequest{ID: id, Group: "g"}) }
	if got := []string{next(100), next(101)}; strings.Join(got, ",") != "ok,the host sent 65 requests at once" {
		t.Errorf("%q", got)
	}
}

// PMIx fences are of any ranks, and several may be open, up to a limit. The same fence may not be open twice.
func TestAdmitFencesOfAnyRanks(t *testing.T) {
	g, _ := nodetest.NewStage(t, "running")
	for _, test := range []struct{ id, want string }{
		{"fence:g/0", "ok"}, {"fence:g/0", "fences"}, {"connect:g/0", "ok"},
		{"fence:g[4]/7", "ok"}, {"fence:a,g[4]/0", "ok"}, {"g/0", "ok"},
		{"fence:a/0", "unasked"}, {"ring:g/0", `ID "ring:g/0"`}, {"construct.0123456789abcdef:a/0", "unasked"},
	} {
		if got := nodetest.Judge(g, &wire.Fence{ID: test.id}); got != test.want {
			t.Errorf("%s: %s, want %s", test.id, got, test.want)
		}
	}
	g.NoteFenceResultSent(fence.ID{Kind: fence.PMIxFence, Members: "g"})
	for i := 3; i < node.MaxOpenFences; i++ { // 3 of those above are still open
		if got := nodetest.Judge(g, &wire.Fence{ID: fmt.Sprint("fence:g/", i)}); got != "ok" {
			t.Fatalf("fence %d: %s", i, got)
		}
	}
	if got := nodetest.Judge(g, &wire.Fence{ID: "fence:g/9999"}); got != fmt.Sprintf("the host opened %d fences at once", node.MaxOpenFences+1) {
		t.Errorf("one more: %s", got)
	}
}

// A fence is given up once. Late messages about a closed fence are dropped. If mpiexec closed a fence
// before the node joined it, the node reports it once more, either as joined or as late.
func TestAdmitLateFences(t *testing.T) {
	id := fence.ID{Kind: fence.PMIxFence, Members: "g"}
	for name, test := range map[string]struct {
		msgs []wire.Message // nil: mpiexec closes the fence
		want string         // verdict on the last message
	}{
		"at once":               {[]wire.Message{&wire.Fence{ID: "fence:g/0", GivenUp: true}}, "ok"},
		"when it waits":         {[]wire.Message{&wire.Fence{ID: "fence:g/0"}, &wire.Fence{ID: "fence:g/0", GivenUp: true, Joined: true}}, "ok"},
		"twice":                 {[]wire.Message{&wire.Fence{ID: "fence:g/0", GivenUp: true}, &wire.Fence{ID: "fence:g/0", GivenUp: true}}, "fences"},
		"after the result":      {[]wire.Message{&wire.Fence{ID: "fence:g/0"}, nil, &wire.Fence{ID: "fence:g/0", GivenUp: true, Joined: true}}, "dropped"},
		"closed, then late":     {[]wire.Message{nil, &wire.Fence{ID: "fence:g/0", GivenUp: true}}, "ok"},
		"closed, then joined":   {[]wire.Message{nil, &wire.Fence{ID: "fence:g/0", Blob: []byte("a")}}, "ok"},
		"a barrier":             {[]wire.Message{&wire.Fence{ID: "g/0", GivenUp: true}}, `ID "g/0" (too late)`},
		"with a blob":           {[]wire.Message{&wire.Fence{ID: "fence:g/0", GivenUp: true, Blob: []byte("a")}}, `ID "fence:g/0" (too late)`},
		"joined, and not late":  {[]wire.Message{&wire.Fence{ID: "fence:g/0", Joined: true}}, `ID "fence:g/0" (too late)`},
		"one of another's rank": {[]wire.Message{&wire.Fence{ID: "fence:a/0", GivenUp: true, Joined: true}}, "unasked"},
	} {
		g, _ := nodetest.NewStage(t, "running")
		got := ""
		for _, m := range test.msgs {
			if m == nil {
				g.NoteFenceResultSent(id)
				continue
			}
			got = nodetest.Judge(g, m)
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
		if test.want == "ok" && g.GivenUpFenceCount() > 0 {
			t.Errorf("%s: something is kept", name)
		}
	}
}

// The IDs of open fences are bounded together. A fence's result frees its share.
func TestAdmitLongNamesOfFences(t *testing.T) {
	var ranks []byte
	for rank := 0; len(ranks) < 900_000; rank += 2 {
		ranks = strconv.AppendInt(append(ranks, ','), int64(rank), 10)
	}
	name := func(number int) fence.ID {
		return fence.ID{Kind: fence.PMIxFence, Members: fence.Members("g[" + string(ranks[1:]) + "]"), Number: number}
	}
	g, _ := nodetest.NewStage(t, "running")
	for i := range 4 {
		if got := nodetest.Judge(g, &wire.Fence{ID: name(i).String()}); got != "ok" {
			t.Fatalf("fence %d: %s", i, got)
		}
	}
	g.NoteFenceResultSent(name(0))
	if got := nodetest.Judge(g, &wire.Fence{ID: name(4).String()}); got != "ok" {
		t.Errorf("one more after a result: %s", got)
	}
	if got := nodetest.Judge(g, &wire.Fence{ID: name(5).String()}); !strings.HasPrefix(got, "the host opened fences whose names have ") {
		t.Errorf("one more: %s", got)
	}
}

// Replies to requests that were given up are dropped, and are no violation.
func TestRepliesToAbandonedRequests(t *testing.T) {
	g, _ := nodetest.NewStage(t, "greeted")
	g.NoteSent(&wire.Survey{})
	g.StopWaitingFor(&wire.Survey{})
	g.NoteSent(&wire.Survey{})
	var got []string
	for range 3 {
		got = append(got, nodetest.Judge(g, &wire.Surveyed{}))
	}
	if strings.Join(got, " ") != "ok dropped unasked" {
		t.Errorf("surveys: %q", got)
	}
	prepare := &wire.Prepare{Group: wire.Group{Name: "g"}, Ranks: []job.RankPlan{{Rank: nodetest.Own}}}
	g.NoteSent(prepare)
	g.NoteSent(&wire.CancelPrepare{Group: "g"})
	g.NoteSent(prepare)
	got = []string{nodetest.Judge(g, &wire.Prepared{Group: "g"}), nodetest.Judge(g, &wire.ClaimConflict{Group: "g"}), nodetest.Judge(g, &wire.Prepared{Group: "g"})}
	if strings.Join(got, " ") != "dropped ok unasked" {
		t.Errorf("groups: %q", got)
	}
}

// A ControlReply belongs to the request with its ID: a late reply to an abandoned request does not count
// as the reply to the current one.
func TestControlRepliesMatchByID(t *testing.T) {
	g, _ := nodetest.NewStage(t, "greeted")
	slow, next := &wire.ControlRequest{ID: "1"}, &wire.ControlRequest{ID: "2"}
	g.NoteSent(slow)
	g.StopWaitingFor(slow)
	g.NoteSent(next)
	var got []string
	for _, id := range []string{"1", "2", "2", "1", "3"} {
		got = append(got, nodetest.Judge(g, &wire.ControlReply{ID: id, State: job.ReplyDone}))
	}
	if want := "dropped ok unasked unasked unasked"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %s", got, want)
	}
}

// A late message is dropped for as long as a link may be silent, not counting the time for which mpiexec
// was stopped. After that it is a violation.
func TestLateForSoLong(t *testing.T) {
	g, clock := nodetest.NewStage(t, "running")
	g.NoteSent(&wire.EndJob{})
	*clock = clock.Add(nodetest.Tolerance)
	if got := nodetest.Judge(g, &wire.RankMapRequest{ID: 1}); got != "dropped" {
		t.Errorf("in time: %s", got)
	}
	*clock = clock.Add(time.Hour)
	g.ShiftTimes(time.Hour)
	if got := nodetest.Judge(g, &wire.RankMapRequest{ID: 2}); got != "dropped" {
		t.Errorf("after a stop: %s", got)
	}
	*clock = clock.Add(1)
	if got := nodetest.Judge(g, &wire.RankMapRequest{ID: 3}); got != "late" {
		t.Errorf("too late: %s", got)
	}
}

// Messages above the rate limit wait for the next second; only the last one is kept.
func TestRateLimits(t *testing.T) {
	g, clock := nodetest.NewStage(t, "greeted")
	g.NoteSent(&wire.Enqueue{})
	g.NoteSent(&wire.WatchClaims{})
	nodetest.Judge(g, &wire.QueuePosition{Ahead: 9})
	for ahead := range 5 {
		want := "dropped"
		if ahead == 0 {
			want = "ok"
		}
		if got := nodetest.Judge(g, &wire.QueuePosition{Ahead: 5 - ahead}); got != want {
			t.Errorf("%d ahead: %s", 5-ahead, got)
		}
	}
	if !g.MustStartTimer() || g.MustStartTimer() {
		t.Error("there is not exactly one timer")
	}
	if kept := g.TakePostponed(); len(kept) != 1 || kept[0].(*wire.QueuePosition).Ahead != 1 {
		t.Errorf("kept %+v", kept)
	}
	*clock = clock.Add(time.Second)
	changes, lines := 0, 0
	for range 1000 {
		if nodetest.Judge(g, &wire.ClaimsChanged{}) == "ok" {
			changes++
		}
		if nodetest.Judge(g, &wire.Log{}) == "ok" {
			lines++
		}
	}
	if changes != 10 || lines != 200 || g.TakeDroppedLogs() != 800 || g.TakeDroppedLogs() != 0 {
		t.Errorf("%d changes, %d lines", changes, lines)
	}
}

// Output may be millions of lines: checking one takes no allocation and no lock.
func BenchmarkAdmit(b *testing.B) {
	g := node.NewValidator(job.NodeDef{}, 0, time.Now)
	g.CheckMessage(&wire.Hello{})
	g.CheckMessage(&wire.NodeInfo{})
	prepare := &wire.Prepare{Group: wire.Group{Name: "g"}, Streams: wire.Streams{Window: 1 << 62}}
	for rank := range 64 {
		prepare.Ranks = append(prepare.Ranks, job.RankPlan{Rank: 64*7 + rank})
	}
	g.NoteSent(prepare)
	g.CheckMessage(&wire.Prepared{Group: "g"})
	g.NoteSent(&wire.Start{Group: "g"})
	for _, r := range prepare.Ranks {
		g.CheckMessage(&wire.Started{Rank: r.Rank, PID: 1})
	}
	m := &wire.Data{Stream: wire.Stdout, Bytes: []byte("a line of output\n")}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		m.Rank = 64*7 + i&63
		if _, err := g.CheckMessage(m); err != nil {
			b.Fatal(err)
		}
	}
}

// A node may not report Drained while one of its ranks was not started, unless mpiexec has ended the job.
// Else a job without that rank would end with 0 (found by FuzzRun).
func TestAdmitDrainedBeforeAStart(t *testing.T) {
	g, _ := nodetest.NewStage(t, "prepared")
	g.NoteSent(&wire.Start{Group: "g"})
	if got, want := nodetest.Judge(g, &wire.Drained{}), "unended"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	g, _ = nodetest.NewStage(t, "prepared")
	g.NoteSent(&wire.Start{Group: "g"})
	g.NoteSent(&wire.EndJob{})
	if got := nodetest.Judge(g, &wire.Drained{}); got != "ok" {
		t.Errorf("after EndJob: %s", got)
	}
}

// Drained may name kept session directories only if Prepare says that they are kept.
func TestAdmitDirectoriesThatStay(t *testing.T) {
	for _, keep := range []bool{false, true} {
		g, _ := nodetest.NewStage(t, "ending", func(m *wire.Prepare) { m.Supervision.KeepSessions = keep })
		nodetest.Judge(g, &wire.Exited{Exit: job.Exit{Rank: nodetest.Own}})
		if got := nodetest.Judge(g, &wire.Drained{KeptSessions: []string{"/tmp/rs"}}); (got == "unasked") == keep {
			t.Errorf("keep %v: %s", keep, got)
		}
	}
}
