package reserve

import (
	"testing"
	"time"

	"remshell/job"
)

// The time that a node takes to reply makes no clock wrong.
func TestClockDifference(t *testing.T) {
	node := func(name string, least, most time.Duration) *host {
		return &host{def: job.NodeDef{Name: name}, clock: clockRange{least, most}}
	}
	for _, c := range []struct {
		nodes []*host
		want  time.Duration
		names string
	}{
		{[]*host{node("a", 0, 0)}, 0, ""},
		{[]*host{node("a", -time.Second, time.Second), node("b", -5*time.Second, 1)}, 0, ""},
		{[]*host{node("a", -time.Second, 0), node("b", 3*time.Second, 4*time.Second), node("c", 0, 0)}, 3 * time.Second, "b a"},
		{[]*host{node("a", 5*time.Second, 6*time.Second), node("b", 5*time.Second, 5*time.Second)}, 0, ""},
	} {
		by, ahead, behind := clockDifference(c.nodes)
		names := ""
		if ahead != nil {
			names = ahead.def.Name + " " + behind.def.Name
		}
		if by != c.want || names != c.names {
			t.Errorf("%v %q, want %v %q", by, names, c.want, c.names)
		}
	}
}
