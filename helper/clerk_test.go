//go:build linux

package helper

import (
	"slices"
	"strings"
	"testing"

	"remshell/job"
	"remshell/wire"
)

// A launch from inside a rank may use what the jobs around it hold, and nothing else.
func TestUnrelatedClaims(t *testing.T) {
	claims := []job.Claim{{Job: "outer"}, {Job: "middle", Inside: "outer"}, {Job: "other"}, {Job: "sister", Inside: "outer"},
		{Job: "loop", Inside: "loop"}}
	for inside, want := range map[job.ID]string{
		"":       "outer middle other sister loop",
		"outer":  "middle other sister loop",
		"middle": "other sister loop",
		"loop":   "outer middle other sister",
		"gone":   "outer middle other sister loop",
	} {
		var left []string
		for _, c := range unrelated(claims, inside) {
			left = append(left, string(c.Job))
		}
		if got := strings.Join(left, " "); got != want {
			t.Errorf("inside %q: %s, want %s", inside, got, want)
		}
	}
}

func TestConflict(t *testing.T) {
	seats := func(cpus ...int) (ranks []job.Seat) {
		for i, cpu := range cpus {
			ranks = append(ranks, job.Seat{Rank: i, CPUs: []int{cpu}})
		}
		return ranks
	}
	two := job.Claim{Job: "b", Ranks: seats(2, 3)}
	for _, test := range []struct {
		name   string
		m      wire.Prepare
		mine   job.Claim
		others []job.Claim
		want   string
	}{
		{"nobody else", wire.Prepare{Most: -1}, job.Claim{Ranks: seats(0), Exclusive: true}, nil, ""},
		{"other CPUs", wire.Prepare{Most: -1}, job.Claim{Ranks: seats(0, 1)}, []job.Claim{two}, ""},
		{"a CPU of another", wire.Prepare{Most: -1}, job.Claim{Ranks: seats(1, 2)}, []job.Claim{two}, "CPU 2 was taken by another job"},
		{"a try-out", wire.Prepare{Most: -1, Shares: true}, job.Claim{Ranks: seats(1, 2)}, []job.Claim{two}, ""},
		{"alone", wire.Prepare{Most: -1}, job.Claim{Ranks: seats(0), Exclusive: true}, []job.Claim{two}, "not idle: job b runs there"},
		{"another is alone", wire.Prepare{Most: -1}, job.Claim{Ranks: seats(0)}, []job.Claim{{Job: "b", Exclusive: true}}, "used exclusively by another job"},
		{"a try-out where another is alone", wire.Prepare{Most: -1, Shares: true}, job.Claim{}, []job.Claim{{Job: "b", Exclusive: true}}, "used exclusively by another job"},
		{"room below maxproc", wire.Prepare{Most: 4}, job.Claim{Ranks: seats(0, 1)}, []job.Claim{two}, ""},
		{"over maxproc", wire.Prepare{Most: 3}, job.Claim{Ranks: seats(0, 1)}, []job.Claim{two}, "2 of at most 3 processes running"},
		{"its own outer job", wire.Prepare{Most: -1}, job.Claim{Inside: "b", Ranks: seats(2)}, []job.Claim{two}, ""},
	} {
		got := ""
		if err := conflict(&test.m, test.mine, slices.Clone(test.others)); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
