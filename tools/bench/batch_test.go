//go:build linux

package main

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// What is run in a job comes back as it was measured there, and nothing else counts.
func TestRoundsInAJob(t *testing.T) {
	sides, err := parseRounds("0 1000 20 4096\n1 3000 40 4096\n2 500 1 0\n0 2000 20 4096\n1 3000 40 4096\n2 500 1 0\n")
	want := []sample{{wall: 1000, cpu: 20, peak: 4096}, {wall: 2000, cpu: 20, peak: 4096}}
	if err != nil || !reflect.DeepEqual(sides[0], want) || len(sides[1]) != 2 || len(sides[2]) != 2 {
		t.Errorf("%v, %v", sides, err)
	}
	for _, wrong := range []string{"3 1 1 1\n", "srun: error\n", "-1 1 1 1\n", "0 1 1\n"} {
		if _, err := parseRounds(wrong); err == nil {
			t.Errorf("%q was read", wrong)
		}
	}
	lists := split([]string{"a", "b", andArg, "c", andArg, "d", "e"}, andArg)
	if !reflect.DeepEqual(lists, [][]string{{"a", "b"}, {"c"}, {"d", "e"}}) {
		t.Error(lists)
	}
}

// Each goal is that of a case there is, so that none is ever left out in silence.
func TestGoalsOfBatchSystems(t *testing.T) {
	names := make(map[string]bool)
	for _, c := range cases("", "bench", strings.Repeat("n,", manyHosts)) {
		names[c.name] = true
	}
	for _, system := range batchSystems {
		for _, c := range system.cases("/dir") {
			names[c.name] = true
			for _, side := range c.words("ours", "theirs") {
				if len(side) < 2 || strings.HasPrefix(side[0], "-") || strings.Contains(quote(side), "''") {
					t.Errorf("%s: %q", c.name, side)
				}
			}
		}
	}
	for _, g := range goals {
		if !names[g.row] {
			t.Errorf("no case is %q", g.row)
		}
	}
}

// Where a goal is a time that may be added, it is the middle of the differences that counts.
func TestGoalOfADifference(t *testing.T) {
	r := row{name: "1 host in a job of Slurm's, to outside", rival: ourselves, sides: [3][]sample{samples(12, 30, 14), samples(10, 20, 10), nil}}
	if got, want := verdicts([]row{r}), "- 1 host in a job of Slurm's, to outside, wall: 4.0 ms more than the other's; goal at most 5.0 ms: reached\n"; got != want {
		t.Errorf("%s want %s", got, want)
	}
	r.sides[0] = samples(16, 30, 18)
	if got := verdicts([]row{r}); !strings.Contains(got, "8.0 ms") || !strings.Contains(got, "MISSED") {
		t.Error(got)
	}
	if r.difference(wall) != 8*time.Millisecond {
		t.Error(r.difference(wall))
	}
}
