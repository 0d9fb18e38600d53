package supervise

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"remshell/job"
	"remshell/text"
)

/*
A vacancy is how far a suspended job is in giving its CPUs to others, and in taking exactly these back: on all
nodes, or on none (survive.md SV-29, SV-30).

	          --suspend=free           all have answered
	taken ---------------------> giving ----------------> vacant <-------------------.
	  ^                                                     | --resume-job           | all have answered
	  |                                                     v                        |
	  |                               somebody has one   looking                 returning
	  |                             (refused, to vacant) <--' '--> nobody has        ^
	  |                                                            |                 | somebody was faster on one
	  '------------------ all have them, the ranks go on <----- taking --------------'

A look changes nothing: where somebody has a CPU, no node claims any. A node that says nothing for half a minute is
waited for no more: what was asked for is refused, or, when CPUs are given up, done but there. It may have done what it was
told all the same, and is told to give up again. Its answers come in the order of the questions, so that a late one
is known by how many it owes.
*/
type vacancy struct {
	phase   vacancyPhase
	open    map[int]bool // nodes that have not answered
	owed    map[int]int  // answers of nodes that nobody waits for any more
	until   time.Time    // how long those in open are waited for; zero: there are none
	back    []int        // nodes that have their CPUs again
	refused []string     // who has which
	notices []string
	asker   Asked // void: the job itself looks
}

type vacancyPhase int

const (
	taken vacancyPhase = iota
	giving
	vacant
	looking
	taking
	returning
)

// Vacant reports whether others may have the CPUs of the job, or soon may.
func (s *State) Vacant() bool { return s.vacancy.phase != taken }

// suspend has all ranks stand still, and with free gives their CPUs to others.
func (s *State) suspend(e Asked, free bool, now time.Time) (do []Action) {
	if s.Held() && (!free || s.Vacant()) {
		return []Action{Reply{To: e, State: job.AskRefused, Text: "already suspended"}}
	}
	if !s.Held() {
		s.held = now
		do = []Action{Hold{On: true}, s.suspendedBy(e, now)}
	}
	if !free {
		return append(do, Reply{To: e, State: job.AskDone, Text: "suspended"})
	}
	do = append(do, Reply{To: e, State: job.AskTaken, Text: "suspended"})
	return append(do, s.vacate(e, giving, job.GiveUp, s.occupied(), now)...)
}

// suspendedBy tells the user who has suspended his job (T14).
func (s *State) suspendedBy(e Asked, now time.Time) Say {
	option := "--suspend"
	if e.Verb == job.AskSuspendFree {
		option += "=free"
	}
	return Say{e.Told(fmt.Sprintf("suspended by %s (%s) after %s; mpiexec --resume-job %s goes on", e.Who(), option, job.Clock(now.Sub(s.began)), s.id))}
}

// resume lets the ranks go on, when they have their CPUs.
func (s *State) resume(e Asked, now time.Time) []Action {
	switch s.vacancy.phase {
	case taken:
		return s.goOn(e, now)
	case vacant:
		do := []Action{Reply{To: e, State: job.AskTaken, Text: "its CPUs are claimed again"}}
		return append(do, s.vacate(e, looking, job.Look, s.occupied(), now)...)
	}
	return []Action{Reply{To: e, State: job.AskRefused, Text: "its CPUs are just being claimed, or given up, for somebody else who has asked", Later: true}}
}

func (s *State) goOn(e Asked, now time.Time) []Action {
	stood := now.Sub(s.held)
	return append(append(s.lift(now), Say{"goes on after " + job.Clock(stood)}), s.vacancy.reply(e, job.AskDone, "goes on", false)...)
}

// occupied are the nodes on which something is left of the job.
func (s *State) occupied() (nodes []int) {
	for i, n := range s.nodes {
		if !n.done {
			nodes = append(nodes, i)
		}
	}
	return nodes
}

// vacate has nodes do something about their CPUs.
func (s *State) vacate(e Asked, phase vacancyPhase, what job.Vacancy, nodes []int, now time.Time) []Action {
	v := &s.vacancy
	v.phase, v.asker, v.open, v.until = phase, e, make(map[int]bool), now.Add(cpusPatience)
	if phase != returning {
		v.back, v.refused, v.notices = nil, nil, nil
	}
	for _, n := range nodes {
		v.open[n] = true
	}
	return []Action{Vacate{What: what, Nodes: nodes}}
}

// vacated takes the answer of a node, and goes on when all have answered.
func (s *State) vacated(e Vacated, now time.Time) []Action {
	v := &s.vacancy
	if v.owed[e.Node] > 0 && !s.nodes[e.Node].done {
		v.owed[e.Node]--
		return nil
	}
	if !v.open[e.Node] {
		return nil
	}
	delete(v.open, e.Node)
	name := s.nodes[e.Node].name
	if e.Notice != "" {
		v.notices = append(v.notices, name+": "+e.Notice)
	}
	switch {
	case e.Taken != "":
		v.refused = append(v.refused, name+": "+e.Taken)
	case v.phase == taking && !s.nodes[e.Node].done:
		v.back = append(v.back, e.Node)
	}
	if len(v.open) > 0 {
		return nil
	}
	return s.allVacated(now)
}

// silentAbout goes on without the nodes that have not answered, when that takes too long.
func (s *State) silentAbout(now time.Time) []Action {
	v := &s.vacancy
	if v.until.IsZero() || now.Before(v.until) {
		return nil
	}
	if v.owed == nil {
		v.owed = make(map[int]int)
	}
	for n := range v.open {
		v.owed[n]++
		text := fmt.Sprintf("%s: no answer for %v", s.nodes[n].name, cpusPatience)
		switch v.phase {
		case taking: // it may have them when it answers
			v.back = append(v.back, n)
			v.refused = append(v.refused, text)
		case looking:
			v.refused = append(v.refused, text)
		default:
			v.notices = append(v.notices, text+", it may claim its CPUs still")
		}
	}
	clear(v.open)
	slices.Sort(v.back)
	return s.allVacated(now)
}

func (s *State) allVacated(now time.Time) []Action {
	v := &s.vacancy
	v.until = time.Time{}
	switch {
	case v.phase == giving:
		v.phase = vacant
		return v.reply(v.asker, job.AskDone, s.given(), false)
	case v.phase == looking && len(v.refused) == 0:
		return s.vacate(v.asker, taking, job.TakeBack, s.occupied(), now)
	case v.phase == taking && len(v.refused) == 0:
		v.phase = taken
		return s.goOn(v.asker, now)
	case v.phase == taking && len(v.back) > 0:
		return s.vacate(v.asker, returning, job.GiveUp, v.back, now)
	}
	v.phase = vacant
	slices.Sort(v.refused)
	return v.reply(v.asker, job.AskRefused, "its CPUs are not free: "+strings.Join(v.refused, "; "), true)
}

// reply is an answer, with what ledgers did not take.
func (v *vacancy) reply(to Asked, state job.AnswerState, text string, later bool) []Action {
	return []Action{Reply{To: to, State: state, Text: text + v.told(), Later: later}}
}

// given says what others may have now, and what not.
func (s *State) given() string {
	memory := "memory"
	if bytes := s.Tally.now(); bytes > 0 {
		memory = fmt.Sprintf("%d MiB of memory", max(1, bytes>>20))
		if bytes >= 10<<30 {
			memory = fmt.Sprintf("%d GiB of memory", bytes>>30)
		}
	}
	if s.gpus > 0 {
		return fmt.Sprintf("suspended; its CPUs are free for others, its %s and %s are not", memory, text.Count(s.gpus, "GPU"))
	}
	return fmt.Sprintf("suspended; its CPUs are free for others, its %s is not", memory)
}

// told is what ledgers did not take.
func (v *vacancy) told() string {
	if len(v.notices) == 0 {
		return ""
	}
	return " (" + strings.Join(slices.Compact(slices.Sorted(slices.Values(v.notices))), "; ") + ")"
}

// unvacate forgets about all that, as the job is being ended: who has asked hears of that.
func (s *State) unvacate() (do []Action) {
	switch s.vacancy.phase {
	case giving, looking, taking, returning:
		do = []Action{Reply{To: s.vacancy.asker, State: job.AskRefused, Text: "the job ends"}}
	}
	s.ceded, s.vacancy = s.ceded || s.Vacant(), vacancy{owed: s.vacancy.owed}
	return do
}

// Ceded reports whether the job has ended while others might have its CPUs.
func (s *State) Ceded() bool { return s.ceded }

// now is the memory that the job has, in bytes; 0: unknown.
func (t *Tally) now() (bytes int64) {
	for n := range maps.Values(t.nodes) {
		if !n.over {
			bytes += n.last.Mem
		}
	}
	return bytes
}
