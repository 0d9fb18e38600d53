package gang

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"remshell/job"
	"remshell/job/turns"
)

var terms = job.GangTerms{Parties: 4, Slice: 10 * time.Second}

// clock returns a time this long after the begin of slice 0 of an even cycle.
func clock(after time.Duration) time.Time { return time.Unix(800_000, 0).Add(after) }

// A gang is never stopped without competitors, waits as a newcomer, then follows the rule: stopped at the boundary, continued
// 20 ms after it.
func TestSchedule(t *testing.T) {
	const s = time.Second
	type step struct {
		at   time.Duration
		do   func(*schedule)
		hold bool
		next time.Duration // 0: when something changes
	}
	sees := func(parties ...int) func(*schedule) { return func(x *schedule) { x.noteClaims(parties) } }
	for _, c := range []struct {
		name  string
		party int
		steps []step
	}{
		{"alone", 0, []step{{0, nil, true, 0}, {1, sees(), false, 0}, {35 * s, nil, false, 0}}},
		{"a newcomer waits for the first boundary after a second", 0, []step{
			{3 * s, sees(2), true, 1 * s}, // claimed at 0; the second is over
			{10 * s, nil, true, 10*s + 20*time.Millisecond}, {10*s + 20*time.Millisecond, nil, false, 11*s + 20*time.Millisecond},
			{19500 * time.Millisecond, nil, false, 20 * s}, {20 * s, nil, true, 21 * s}, {29 * s, nil, true, 30 * s}}},
		{"just before a boundary", 0, []step{{500 * time.Millisecond, sees(2), true, 1 * s}, {1 * s, nil, true, 2 * s}, {9500 * time.Millisecond, nil, true, 10 * s}}},
		{"a competitor comes later", 2, []step{{1, sees(), false, 0}, {2 * s, sees(0), true, 3 * s}, {22 * s, nil, false, 23 * s}, {23 * s, sees(), false, 0}}},
		{"a competitor goes", 2, []step{{1, sees(), false, 0}, {2 * s, sees(0), true, 3 * s}, {5 * s, sees(), false, 0}}},
		{"a competitor on another node", 2, []step{{1, sees(), false, 0}, {2 * s, func(x *schedule) { x.anywhere = []int{0, 2} }, true, 3 * s}, {20*s + 5*time.Millisecond, nil, true, 20*s + 20*time.Millisecond}}},
		{"the job ends", 2, []step{{1, sees(), false, 0}, {2 * s, sees(0), true, 3 * s}, {3 * s, func(x *schedule) { x.over = true }, false, 0}}},
		{"the length changes", 2, []step{{1, sees(), false, 0}, {22 * s, sees(0), false, 23 * s}, // party 2 owns slice 2 of 10 s
			{23*s + s/2, func(x *schedule) {
				x.setting = job.SliceSetting{Length: 5 * s, From: clock(24 * s), Before: 10 * s}
			}, false, 24 * s}, {24 * s, nil, true, 25 * s}, // slice 160,004 of 5 s is party 0's
			{30*s + 20*time.Millisecond, nil, false, 31*s + 20*time.Millisecond}}},
		{"the clock is set back", 2, []step{{1, sees(), false, 0}, {22 * s, sees(0), false, 23 * s}, {2 * s, nil, true, 3 * s}}},
	} {
		x, held := schedule{gang: job.Gang{Party: c.party, GangTerms: terms}, claimed: clock(0)}, false
		for i, step := range c.steps {
			if step.do != nil {
				step.do(&x)
			}
			hold, next := x.decide(clock(step.at), held)
			want := time.Time{}
			if step.next != 0 {
				want = clock(step.next)
			}
			if hold != step.hold || i > 0 && !next.Equal(want) && !(c.name[:1] == "a" && i == 0) {
				t.Errorf("%s, at %v: hold %v until %v, want %v until %v", c.name, step.at, hold, next.Sub(clock(0)), step.hold, step.next)
			}
			held = hold
		}
	}
}

// Claims of other jobs count if they are gangs of the same number of parties, share a CPU, and run ranks.
func TestCompetition(t *testing.T) {
	claim := func(id job.ID, party, parties int, cpus ...int) job.Claim {
		return job.Claim{Job: id, UID: 1, Gang: &job.Gang{Party: party, GangTerms: job.GangTerms{Parties: parties, Slice: time.Second}}, Ranks: []job.ClaimedRank{{CPUs: cpus}}}
	}
	plain, idle, foreign := claim("plain", 1, 4, 0), claim("idle", 1, 4, 0), claim("own", 2, 4, 1)
	plain.Gang, idle.IdleReason, foreign.UID = nil, job.IdleRestarting, 2
	all := []job.Claim{claim("own", 0, 4, 0, 1), claim("a", 2, 4, 1, 2), claim("b", 3, 4, 2, 3), claim("c", 1, 2, 0), claim("own", 0, 4, 5), claim("d", 1, 4, 5), plain, idle, foreign}
	parties, jobs := competition(all, job.Key{Job: "own", UID: 1})
	if !slices.Equal(parties, []int{1, 2}) || fmt.Sprint(jobs) != "[a d own]" {
		t.Errorf("it takes turns with parties %v, jobs %v", parties, jobs)
	}
}

// Another user can make claims of every party for the job's CPU, and very many of them. The job still runs in its own slices, and
// its report stays small.
func TestForgedClaims(t *testing.T) {
	gang := func(party int) *job.Gang { return &job.Gang{Party: party, GangTerms: terms} }
	all := []job.Claim{{Job: "own", UID: 1, Gang: gang(1), Ranks: []job.ClaimedRank{{CPUs: []int{0}}}}}
	for i := range 4096 {
		all = append(all, job.Claim{Job: job.ID(fmt.Sprint("forged-", i)), UID: 2, Gang: gang(i % 4), Ranks: []job.ClaimedRank{{CPUs: []int{0}}}})
	}
	parties, jobs := competition(all, job.Key{Job: "own", UID: 1})
	if !slices.Equal(parties, []int{0, 2, 3}) || len(jobs) == 0 || len(jobs) > maxJobs {
		t.Errorf("parties %v, %d jobs", parties, len(jobs))
	}
	if share := turns.Share(1, parties, terms.Parties); share != 2 {
		t.Errorf("it runs in %d of 8 slices, want 2", share)
	}
}
