package simulate

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"testing"

	"remshell/job"
)

// A saved state keeps the options for choosing nodes and the needs of ranks: the cases of which-hosts.md.
// A request for node sets is the job's own in the file, whatever its source.
func TestSavedNodeChoice(t *testing.T) {
	data, err := os.ReadFile("../testdata/which-hosts/examples.json")
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Examples []struct {
			Number int
			State  json.RawMessage
		}
	}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	saved := 0
	for _, e := range all.Examples {
		s, err := Parse(e.State)
		if err != nil {
			continue
		}
		in := s.PSIInput("", s.Flags, func(string) (string, bool) { return "", false }, nil)
		req, _, err := s.Request(in)
		if err != nil {
			continue
		}
		saved++
		var file bytes.Buffer
		if err := Save(&file, req, s.Snapshot()); err != nil {
			t.Fatal(err)
		}
		first, again := s.Decide(in), decideText(t, file.Bytes())
		if c := first.Plan.Choice; c != nil && c.NodeSet != nil {
			c.NodeSet.From = "--node-set"
		}
		if got, want := verdictText(again), verdictText(first); got != want || !reflect.DeepEqual(again.Plan.Choice, first.Plan.Choice) {
			t.Errorf("%d: saved as %s\n got %s %+v\nwant %s %+v", e.Number, &file, got, again.Plan.Choice, want, first.Plan.Choice)
		}
	}
	if saved < 180 {
		t.Errorf("%d cases were saved", saved)
	}
}

// An empty list of users means only root; no list means all users.
func TestSavedGates(t *testing.T) {
	for _, users := range [][]int{nil, {}, {7}} {
		req := job.Request{Apps: []job.App{{N: 1}}, Nodes: []job.NodeDef{{Name: "a"}}}
		req.Regions = []job.Region{{Name: "m", Nodes: []string{"a"}, Gate: job.Gate{Access: job.Access{Users: users}, Classes: []string{}}}}
		var file bytes.Buffer
		if err := Save(&file, req, job.Snapshot{}); err != nil {
			t.Fatal(err)
		}
		s, err := Parse(file.Bytes())
		if err != nil || !reflect.DeepEqual(s.Rules.Regions, req.Regions) {
			t.Errorf("%v: %+v, %v\n%s", users, s.Rules.Regions, err, &file)
		}
	}
}
