package node

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"remshell/job"
	"remshell/pmiserver/fence"
	"remshell/pmiserver/spawn"
	"remshell/test/actors"
	"remshell/wire"
)

// An honest helper, as far as the order of what it says goes, and a launcher that asks, lets
// go and ends as it likes. What they say is under way for as long as the seed wants.
type talk struct {
	*rand.Rand
	g        *validator
	down, up []wire.Message

	// The launcher.
	ready, let, ending, gone bool

	// The helper.
	groups  int // Prepare that were not released
	run     bool
	alive   map[int]bool
	room    int
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

func (k *talk) one(n int) bool { return k.IntN(n) == 0 }

func (k *talk) tell(m wire.Message) {
	k.g.noteSent(m)
	k.down = append(k.down, m)
}

// launcher says something that mpiexec may say.
func (k *talk) launcher() {
	if k.gone {
		return
	}
	switch k.IntN(12) {
	case 0:
		k.tell(&wire.Survey{})
		if k.one(2) {
			k.g.stopWaitingFor(&wire.Survey{})
		}
	case 1:
		k.tell(&wire.InspectRanks{})
		if k.one(2) {
			k.g.stopWaitingFor(&wire.InspectRanks{})
		}
	case 2:
		if !k.let {
			k.ready = false
			k.tell(&wire.CancelPrepare{Group: "g"})
			k.tell(&wire.Prepare{Group: wire.Group{Name: "g", NodeCount: 2}, Streams: wire.Streams{Window: 10, Stdin: []int{0}}, PMI: wire.PMISetup{Trace: true}, Ranks: []job.RankPlan{{Rank: 0}, {Rank: 2}}})
		}
	case 3:
		if k.ready && !k.let {
			k.let = true
			k.tell(&wire.Start{Group: "g"})
		}
	case 4:
		k.tell(&wire.WatchClaims{})
	case 5:
		k.tell(&wire.Enqueue{})
	case 6:
		k.tell(&wire.Dequeue{})
	case 7:
		if k.let {
			k.tell(&wire.Data{Rank: 0, Bytes: make([]byte, k.IntN(5)+1)})
		}
	case 8:
		if k.let && k.one(8) {
			k.ending = true
			k.tell(&wire.EndJob{})
		}
	case 9:
		if k.ending && k.one(8) {
			k.gone = true
			k.tell(&wire.Bye{})
		}
	case 10:
		if k.let && k.one(10) {
			k.tell(&wire.KillGroup{Group: "g"})
		}
	}
}

// hear is the launcher, to whom something has come.
func (k *talk) hear(m wire.Message) {
	switch m := m.(type) {
	case *wire.Prepared:
		k.ready = true
	case *wire.Data:
		if m.Stream != wire.Stdin && !k.gone {
			k.tell(&wire.Credit{Rank: m.Rank, Stream: m.Stream, Bytes: len(m.Bytes)})
		}
	case *wire.Fence:
		if !k.gone {
			k.g.noteFenceResultSent(fence.ID{Members: "g"})
			k.down = append(k.down, &wire.Fenced{ID: m.ID})
		}
	case *wire.NameRequest:
		if !k.gone {
			k.tell(&wire.NameReply{ID: m.ID})
		}
	}
}

func (k *talk) say(m wire.Message) { k.up = append(k.up, m) }

// answer is the helper, to whom something has come.
func (k *talk) answer(m wire.Message) {
	switch m := m.(type) {
	case *wire.Survey:
		k.say(&wire.Surveyed{})
	case *wire.InspectRanks:
		k.say(&wire.RankStates{})
	case *wire.Prepare:
		k.groups++
		k.say(&wire.Prepared{Group: m.Group.Name})
	case *wire.CancelPrepare:
		k.groups = 0
	case *wire.Start:
		k.run, k.room = true, 10
		for _, rank := range []int{0, 2} {
			k.say(&wire.Started{Rank: rank, PID: 1})
			k.alive[rank] = true
		}
	case *wire.WatchClaims:
		k.watched = true
	case *wire.Enqueue:
		k.queued = true
		k.say(&wire.QueuePosition{})
	case *wire.Dequeue:
		k.queued = false
	case *wire.Data:
		k.stdin += len(m.Bytes)
	case *wire.Credit:
		k.room += m.Bytes
	case *wire.Fenced:
		k.fenced = false
	case *wire.NameReply:
		k.asked--
	case *wire.EndJob:
		k.end()
	case *wire.Bye:
		k.end()
		k.bye = true
	}
}

// end is what is said when nothing is left.
func (k *talk) end() {
	for rank := range k.alive {
		k.say(&wire.Exited{Exit: job.Exit{Rank: rank}})
		delete(k.alive, rank)
	}
	if k.run && !k.drained {
		k.drained = true
		k.say(&wire.Drained{Orphans: []job.OrphanUsage{{Rank: -1}}})
	}
}

// helper says something that no question was put for.
func (k *talk) helper() {
	if k.watched && k.one(4) {
		k.say(&wire.ClaimsChanged{})
	}
	if k.queued && k.one(4) {
		k.say(&wire.QueuePosition{Ahead: k.IntN(3)})
	}
	if !k.run || k.bye {
		return
	}
	if n := k.IntN(k.room + 1); n > 0 && k.one(2) { // a leftover child writes on
		k.room -= n
		k.say(&wire.Data{Rank: 0, Stream: wire.Stdout, Bytes: make([]byte, n)})
	}
	if k.stdin > 0 && k.one(2) { // the news of what was read may come late
		k.say(&wire.Credit{Rank: 0, Bytes: k.stdin})
		k.stdin = 0
	}
	if k.drained || len(k.alive) == 0 {
		return
	}
	for rank := range k.alive {
		switch k.IntN(9) {
		case 0:
			k.say(&wire.PMIReport{Rank: rank, Event: wire.PMIDisconnected})
		case 1:
			k.say(&wire.PMITrace{Rank: rank})
		case 2:
			if !k.fenced {
				k.fenced = true
				k.say(&wire.Fence{ID: fmt.Sprint("g/", k.fences)})
				k.fences++
			}
		case 3, 4:
			if k.asked < maxUnanswered {
				k.asked++
				k.last++
				k.say(&wire.NameRequest{ID: k.last, Op: wire.Lookup})
			}
		case 5:
			if k.asked < maxUnanswered {
				k.asked++
				k.last++
				k.say(&wire.Spawn{ID: k.last, Request: spawn.Request{Group: "g", Rank: rank}})
			}
		case 6:
			if k.one(6) {
				k.say(&wire.Exited{Exit: job.Exit{Rank: rank, Code: 1}})
				delete(k.alive, rank)
			}
		}
	}
}

// What is true and late is no violation, however long either direction takes (TRUST-5).
func TestLateTruth(t *testing.T) {
	kinds := make(map[string]int)
	for seed := range uint64(1000) {
		g, _ := newStage(t, "greeted")
		k := &talk{Rand: rand.New(rand.NewPCG(seed, 1)), g: g, alive: make(map[int]bool)}
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
					k.answer(m)
				}
			case 3:
				if len(k.up) == 0 {
					continue
				}
				m := k.up[0]
				k.up = k.up[1:]
				kinds[wire.NameOf(m)]++
				admitted, err := g.checkMessage(m)
				if err != nil {
					t.Fatalf("seed %d: %+v: %v", seed, m, err)
				}
				k.hear(admitted)
			}
		}
	}
	for _, kind := range []string{"Surveyed", "RankStates", "Prepared", "Started", "Data", "Credit", "Exited", "Drained", "Fence", "NameRequest", "Spawn", "QueuePosition", "ClaimsChanged", "PMIReport", "PMITrace"} {
		if kinds[kind] < 50 {
			t.Errorf("%s: %d only", kind, kinds[kind])
		}
	}
}

// No message panics the gate, and what it refuses is a violation, whatever was said before.
func FuzzAdmit(f *testing.F) {
	f.Add(uint64(1), []byte("\x01\x02\x04\x07\x08\x0f\x10"))
	f.Fuzz(func(t *testing.T, seed uint64, order []byte) {
		g := newValidator(job.NodeDef{Name: "n1"}, 0)
		all := wire.Kinds()
		k := &talk{Rand: rand.New(rand.NewPCG(seed, 2)), g: g, alive: make(map[int]bool), ready: true}
		for _, what := range order {
			m := all[int(what)%len(all)].New()
			if what >= 128 {
				k.launcher()
			} else if what%4 == 0 {
				m = actors.HelperMessages[int(what)%len(actors.HelperMessages)].Make(k.IntN(6) - 1)
			}
			if _, err := g.checkMessage(m); err != nil && !IsViolation(err) {
				t.Errorf("%T: %v", m, err)
			}
		}
	})
}
