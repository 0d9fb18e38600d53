/*
Package nodetest tests which messages a helper may send at which time, by the rules that node.Admit has
registered.

	nodetest.CheckStages(t, nodetest.StageVerdicts{Kind: "IPCCleaned",
		//       connected greeted asked prepared running ending over left
		Stages: "early     early   early early    ok      ok     ok   dropped", Again: "twice", Foreign: "foreign"})

NewStage and Judge are for cases that such a row cannot express: a message after certain others, or with
other values.
*/
package nodetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"remshell/job"
	"remshell/launch/node"
	"remshell/test/actors"
	"remshell/wire"
)

// Stages are the points of a job at which CheckStages tests messages. The node has one group, "g".
var Stages = []string{"connected", "greeted", "asked", "prepared", "running", "ending", "over", "left"}

// Own and Later are ranks of the node. The helper has not reported the start of Later. Foreign is a rank
// of another node.
const Own, Later, Foreign = 4, 5, 0

// Tolerance is how late a message may be for a validator from NewStage.
const Tolerance = 45 * time.Second

// NewStage returns the validator of a node whose job is at a stage, and the validator's clock, which the
// test may change. The functions in change modify the Prepare that the helper gets.
func NewStage(t *testing.T, stage string, change ...func(*wire.Prepare)) (*node.Validator, *time.Time) {
	t.Helper()
	clock := time.Unix(1e9, 0)
	v := node.NewValidator(job.NodeDef{Name: "n1", Host: "n1.example", Aliases: []string{"one"}}, Tolerance, func() time.Time { return clock })
	receive := func(m wire.Message) {
		if _, err := v.CheckMessage(m); err != nil {
			t.Fatalf("on the way to %q: %T: %v", stage, m, err)
		}
	}
	for _, step := range []struct {
		stage string
		take  func()
	}{
		{"connected", func() { receive(&wire.Hello{}); receive(&wire.NodeInfo{}) }},
		{"greeted", func() {
			m := &wire.Prepare{Group: wire.Group{Name: "g", Size: 8, NodeCount: 2}, Node: wire.GroupNode{Name: "n1"}, Streams: wire.Streams{Window: 100, Stdin: []int{Own}},
				Ranks: []job.RankPlan{{Rank: Own}, {Rank: Later}}, Settings: wire.ExampleSettings()}
			for _, f := range change {
				f(m)
			}
			v.NoteSent(m)
		}},
		{"asked", func() { receive(&wire.Prepared{Group: "g"}) }},
		{"prepared", func() { v.NoteSent(&wire.Start{Group: "g"}); receive(&wire.Started{Rank: Own, PID: 7}) }},
		{"running", func() { v.NoteSent(&wire.EndJob{}) }},
		{"ending", func() { receive(&wire.Exited{Exit: job.Exit{Rank: Own}}); receive(&wire.Drained{}) }},
		{"over", func() { v.NoteSent(&wire.Bye{}) }},
	} {
		if step.stage == stage {
			break
		}
		step.take()
	}
	return v, &clock
}

// Judge returns what the validator decides about a message. Common results are one word: "ok", "dropped",
// "early", "late", "twice", "unasked", "foreign", "ended", "unended". For an invalid value it is the text
// about that value. Otherwise it is the violation.
func Judge(v *node.Validator, m wire.Message) string {
	admitted, err := v.CheckMessage(m)
	switch {
	case err == nil && admitted == nil:
		return "dropped"
	case err == nil:
		return "ok"
	case !node.IsViolation(err):
		return fmt.Sprintf("no violation: %v", err)
	}
	name := wire.NameOf(m)
	switch text := err.Error(); {
	case text == "the host sent a reply that mpiexec had not requested":
		return "unasked"
	case text == "the host sent more output than mpiexec allowed":
		return "much"
	case text == "the host sent the message "+name+" before the start":
		return "early"
	case text == "the host sent the message "+name+" after the end":
		return "late"
	case text == "the host sent the message "+name+" twice":
		return "twice"
	case strings.HasSuffix(text, ", which does not run there"):
		return "foreign"
	case strings.HasSuffix(text, ", which has ended"):
		return "ended"
	case text == fmt.Sprintf("the host sent the message %s before it reported the end of rank %d", name, Own):
		return "unended"
	case text == "the host opened 2 fences at once":
		return "fences"
	case strings.Contains(text, " message with an impossible value: "):
		_, what, _ := strings.Cut(text, " message with an impossible value: ")
		return what
	default:
		return text
	}
}

// A StageVerdicts has what the validator must decide about a kind of message (rule TRUST-4): at each stage,
// when it is repeated after it was accepted, and for a rank of another host.
type StageVerdicts struct {
	Kind    string
	Request wire.Message // the request that it replies to; nil if it is no reply
	Stages  string       // verdicts, in the order of Stages
	Again   string       // empty: it is not repeated
	Foreign string       // empty: it names no rank
}

// CheckStages tests what the validator decides about one kind of message. actors.HelperMessages makes the
// messages.
func CheckStages(t *testing.T, row StageVerdicts) {
	t.Helper()
	wants := strings.Fields(row.Stages)
	for i, stage := range Stages {
		check := func(variant string, v *node.Validator, rank int, want string) {
			if row.Request != nil {
				v.NoteSent(row.Request)
			}
			m := Maker(row.Kind)(rank)
			if got := Judge(v, m); strings.Fields(got)[0] != want && got != want {
				t.Errorf("%s, %s%s: %s, want %s", row.Kind, stage, variant, got, want)
			}
		}
		v, _ := NewStage(t, stage)
		check("", v, Own, wants[i])
		if wants[i] == "ok" && row.Again != "" && stage != "connected" {
			if got := Judge(v, Maker(row.Kind)(Own)); got != row.Again && stage == "running" {
				t.Errorf("%s, %s, again: %s, want %s", row.Kind, stage, got, row.Again)
			}
		}
		if stage == "running" && row.Foreign != "" {
			v, _ := NewStage(t, stage)
			check(", of another's rank", v, Foreign, row.Foreign)
		}
	}
}

// Maker returns a function that makes messages of this kind for a rank.
func Maker(kind string) func(rank int) wire.Message {
	for _, s := range actors.HelperMessages() {
		if s.Kind == kind {
			return s.Make
		}
	}
	return func(int) wire.Message { return nil }
}
