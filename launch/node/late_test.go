package node_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"time"

	"remshell/job"
	"remshell/launch/node"
	"remshell/launch/node/nodetest"
	"remshell/pmiserver/fence"
	"remshell/test/actors"
	"remshell/wire"
)

// A simulation runs an honest helper, which sends messages in a valid order, and a launcher that sends
// requests, starts groups and ends the job at random. The seed decides how long messages are under way.
type simulation struct {
	*rand.Rand
	g        *node.Validator
	down, up []wire.Message // under way to the helper, and to the launcher

	// State of the launcher.
	ready, started, ending, gone bool

	// State of the helper.
	groups  int // groups that were prepared and not cancelled
	run     bool
	alive   map[int]bool
	credit  int
	stdin   int
	fences  int
	fenced  bool
	last    int
	asked   int
	watched bool
	queued  bool
	drained bool
	bye     bool
}

func (k *simulation) one(n int) bool { return k.IntN(n) == 0 }

func (k *simulation) toHelper(m wire.Message) {
	k.g.NoteSent(m)
	k.down = append(k.down, m)
}

// launcher sends something that mpiexec may send now.
func (k *simulation) launcher() {
	if k.gone {
		return
	}
	switch k.IntN(12) {
	case 0:
		k.toHelper(&wire.Survey{})
		if k.one(2) {
			k.g.StopWaitingFor(&wire.Survey{})
		}
	case 1:
		all := questions()
		asked := all[k.IntN(len(all))].asked.New()
		k.toHelper(asked)
		if k.one(2) {
			k.g.StopWaitingFor(asked)
		}
	case 2:
		if !k.started {
			k.ready = false
			k.toHelper(&wire.CancelPrepare{Group: "g"})
			k.toHelper(&wire.Prepare{Group: wire.Group{Name: "g", NodeCount: 2}, Streams: wire.Streams{Window: 10, Stdin: []int{0}}, Settings: wire.ExampleSettings(), Ranks: []job.RankPlan{{Rank: 0}, {Rank: 2}}})
		}
	case 3:
		if k.ready && !k.started {
			k.started = true
			k.toHelper(&wire.Start{Group: "g"})
		}
	case 4:
		k.toHelper(&wire.WatchClaims{})
	case 5:
		k.toHelper(&wire.Enqueue{})
	case 6:
		k.toHelper(&wire.Dequeue{})
	case 7:
		if k.started {
			k.toHelper(&wire.Data{Rank: 0, Bytes: make([]byte, k.IntN(5)+1)})
		}
	case 8:
		if k.started && k.one(8) {
			k.ending = true
			k.toHelper(&wire.EndJob{})
		}
	case 9:
		if k.ending && k.one(8) {
			k.gone = true
			k.toHelper(&wire.Bye{})
		}
	case 10:
		if k.started && k.one(10) {
			k.toHelper(&wire.KillGroup{Group: "g"})
		}
	}
}

// atLauncher handles a message that the launcher has received.
func (k *simulation) atLauncher(m wire.Message) {
	switch m := m.(type) {
	case *wire.Prepared:
		k.ready = true
	case *wire.Data:
		if m.Stream != wire.Stdin && !k.gone {
			k.toHelper(&wire.Credit{Rank: m.Rank, Stream: m.Stream, Bytes: len(m.Bytes)})
		}
	case *wire.Fence:
		if !k.gone {
			k.g.NoteFenceResultSent(fence.ID{Members: "g"})
			k.down = append(k.down, &wire.Fenced{ID: m.ID})
		}
	case *wire.RankMapRequest:
		if !k.gone {
			k.toHelper(&wire.RankMap{ID: m.ID})
		}
	}
}

func (k *simulation) toLauncher(m wire.Message) { k.up = append(k.up, m) }

// atHelper handles a message that the helper has received.
func (k *simulation) atHelper(m wire.Message) {
	for _, q := range questions() {
		if wire.NameOf(m) == q.asked.Name {
			k.toLauncher(q.reply.New())
			return
		}
	}
	switch m := m.(type) {
	case *wire.Survey:
		k.toLauncher(&wire.Surveyed{})
	case *wire.Prepare:
		k.groups++
		k.toLauncher(&wire.Prepared{Group: m.Group.Name})
	case *wire.CancelPrepare:
		k.groups = 0
	case *wire.Start:
		k.run, k.credit = true, 10
		for _, rank := range []int{0, 2} {
			k.toLauncher(&wire.Started{Rank: rank, PID: 1})
			k.alive[rank] = true
		}
	case *wire.WatchClaims:
		k.watched = true
	case *wire.Enqueue:
		k.queued = true
		k.toLauncher(&wire.QueuePosition{})
	case *wire.Dequeue:
		k.queued = false
	case *wire.Data:
		k.stdin += len(m.Bytes)
	case *wire.Credit:
		k.credit += m.Bytes
	case *wire.Fenced:
		k.fenced = false
	case *wire.RankMap:
		k.asked--
	case *wire.EndJob:
		k.end()
	case *wire.Bye:
		k.end()
		k.bye = true
	}
}

// end has the helper report that all ranks have exited and nothing is left.
func (k *simulation) end() {
	for rank := range k.alive {
		k.toLauncher(&wire.Exited{Exit: job.Exit{Rank: rank}})
		delete(k.alive, rank)
	}
	if k.run && !k.drained {
		k.drained = true
		k.toLauncher(&wire.Drained{Orphans: []job.OrphanUsage{{Rank: -1}}})
	}
}

// helper has the helper send something that is no reply.
func (k *simulation) helper() {
	if k.watched && k.one(4) {
		k.toLauncher(&wire.ClaimsChanged{})
	}
	if k.queued && k.one(4) {
		k.toLauncher(&wire.QueuePosition{Ahead: k.IntN(3)})
	}
	if !k.run || k.bye {
		return
	}
	if n := k.IntN(k.credit + 1); n > 0 && k.one(2) { // a leftover child writes on
		k.credit -= n
		k.toLauncher(&wire.Data{Rank: 0, Stream: wire.Stdout, Bytes: make([]byte, n)})
	}
	if k.stdin > 0 && k.one(2) { // the credit for what was read may come late
		k.toLauncher(&wire.Credit{Rank: 0, Bytes: k.stdin})
		k.stdin = 0
	}
	if k.drained || len(k.alive) == 0 {
		return
	}
	for rank := range k.alive {
		switch k.IntN(9) {
		case 0, 1:
			k.toLauncher(&wire.PMIReport{Rank: rank, Event: wire.PMIDisconnected})
		case 2:
			if !k.fenced {
				k.fenced = true
				k.toLauncher(&wire.Fence{ID: fmt.Sprint("g/", k.fences)})
				k.fences++
			}
		case 3, 4:
			if k.asked < node.MaxUnanswered {
				k.asked++
				k.last++
				k.toLauncher(&wire.RankMapRequest{ID: k.last, Group: "g"})
			}
		case 5:
			if all := requestsOfFeatures(); k.asked < node.MaxUnanswered && len(all) > 0 {
				m := all[k.IntN(len(all))].Example(rank)
				k.asked++
				k.last++
				reflect.ValueOf(m).Elem().FieldByName("ID").SetInt(int64(k.last))
				k.toLauncher(m)
			}
		case 6:
			if k.one(6) {
				k.toLauncher(&wire.Exited{Exit: job.Exit{Rank: rank, Code: 1}})
				delete(k.alive, rank)
			}
		}
	}
}

// requestsOfFeatures returns the kinds of requests of ranks that features own. They share their IDs with RankMapRequests.
var requestsOfFeatures = sync.OnceValue(func() (all []wire.Kind) {
	for _, k := range wire.Kinds() {
		if k.Example != nil && k.Sender == wire.Helper {
			if _, isRequest := wire.KeyOfRequest(k.New()); isRequest {
				all = append(all, k)
			}
		}
	}
	return all
})

// A question is a kind of request that mpiexec sends to a node at any time, and that of its reply.
type question struct{ asked, reply wire.Kind }

// questions returns ReadMarks, and the questions that features own.
var questions = sync.OnceValue(func() (all []question) {
	for _, asked := range wire.Kinds() {
		for _, reply := range wire.Kinds() {
			if asked.Sender == wire.Launcher && (asked.Example != nil || asked.Name == "ReadMarks") && wire.IsReplyTo(asked.New(), reply.New()) {
				all = append(all, question{asked, reply})
			}
		}
	}
	return all
})

// A valid message that is late is no violation, however long either direction takes (TRUST-5).
func TestLateMessagesAreNoViolations(t *testing.T) {
	kinds := make(map[string]int)
	for seed := range uint64(1000) {
		g, _ := nodetest.NewStage(t, "greeted")
		k := &simulation{Rand: rand.New(rand.NewPCG(seed, 1)), g: g, alive: make(map[int]bool)}
		for range 400 {
			switch k.IntN(4) {
			case 0:
				k.launcher()
			case 1:
				k.helper()
			case 2:
				if len(k.down) > 0 {
					m := k.down[0]
					k.down = k.down[1:]
					k.atHelper(m)
				}
			case 3:
				if len(k.up) == 0 {
					continue
				}
				m := k.up[0]
				k.up = k.up[1:]
				kinds[wire.NameOf(m)]++
				admitted, err := g.CheckMessage(m)
				if err != nil {
					t.Fatalf("seed %d: %+v: %v", seed, m, err)
				}
				k.atLauncher(admitted)
			}
		}
	}
	want := []string{"Surveyed", "Prepared", "Started", "Data", "Credit", "Exited", "Drained", "Fence", "RankMapRequest", "QueuePosition", "ClaimsChanged", "PMIReport"}
	for _, k := range requestsOfFeatures() {
		want = append(want, k.Name)
	}
	for _, q := range questions() {
		want = append(want, q.reply.Name)
	}
	for _, kind := range want {
		if kinds[kind] < 50 {
			t.Errorf("%s: %d only", kind, kinds[kind])
		}
	}
}

// No message makes the validator panic. Whatever was sent before, the error for a message is a violation.
func FuzzAdmit(f *testing.F) {
	f.Add(uint64(1), []byte("\x01\x02\x04\x07\x08\x0f\x10"))
	f.Fuzz(func(t *testing.T, seed uint64, order []byte) {
		g := node.NewValidator(job.NodeDef{Name: "n1"}, 0, time.Now)
		all, made := wire.Kinds(), actors.HelperMessages()
		k := &simulation{Rand: rand.New(rand.NewPCG(seed, 2)), g: g, alive: make(map[int]bool), ready: true}
		for _, b := range order {
			m := all[int(b)%len(all)].New()
			if b >= 128 {
				k.launcher()
			} else if b%4 == 0 {
				m = made[int(b)%len(made)].Make(k.IntN(6) - 1)
			}
			if _, err := g.CheckMessage(m); err != nil && !node.IsViolation(err) {
				t.Errorf("%T: %v", m, err)
			}
		}
	})
}
