package cli

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"
)

// The worked examples of which-hosts.md, through the command line. The "choice" of a plan is compared only where the
// example has one.
func TestChoosingExamples(t *testing.T) {
	data, err := os.ReadFile("../testdata/which-hosts/examples.json")
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Examples []struct {
			Number      int
			Group, Case string
			State       json.RawMessage
			Plan        map[string]any
		}
	}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	if len(all.Examples) != 229 {
		t.Errorf("%d examples; there are 229", len(all.Examples))
	}
	for _, e := range all.Examples {
		printed, code, _ := planOf(t, e.State)
		got, want := withoutTexts(printed).(map[string]any), withoutTexts(e.Plan).(map[string]any)
		if want["choice"] == nil {
			delete(got, "choice")
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%d, %s, %s:\n got %v\nwant %v", e.Number, e.Group, e.Case, jsonText(got), jsonText(want))
		}
		if _, placed := e.Plan["ranks"]; placed != (code == 0) {
			t.Errorf("%d, %s: exit code %d", e.Number, e.Case, code)
		}
	}
}
