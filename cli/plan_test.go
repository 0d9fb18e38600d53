package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"remshell/test/jsonschema"
)

// planOf runs mpiexec --plan on a cluster state, and returns the JSON object it prints, the exit code, and the
// object's text.
func planOf(t *testing.T, state []byte, args ...string) (object map[string]any, code int, text string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "state.json")
	if err := os.WriteFile(name, state, 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	args = append([]string{"--plan", "--cluster-state", name}, args...)
	code = Main(context.Background(), args, System{Out: &out, Err: &errs})
	if errs.Len() > 0 {
		t.Errorf("%s on standard error", &errs)
	}
	if err := json.Unmarshal(out.Bytes(), &object); err != nil {
		t.Fatalf("%v in %s", err, &out)
	}
	if err := jsonschema.Check("plan", out.Bytes()); err != nil {
		t.Errorf("%s: %v", &out, err)
	}
	return object, code, out.String()
}

// The examples of placement.md section 8, and more of them, through the command line.
func TestPlacementExamples(t *testing.T) {
	data, err := os.ReadFile("../testdata/placement/examples.json")
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Examples []struct {
			Number int
			Case   string
			State  json.RawMessage
			Plan   map[string]any
		}
	}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	if len(all.Examples) != 111 {
		t.Errorf("%d examples; there are 111", len(all.Examples))
	}
	for _, e := range all.Examples {
		got, code, _ := planOf(t, e.State)
		want := withoutTexts(e.Plan)
		if got := withoutTexts(got); !reflect.DeepEqual(got, want) {
			t.Errorf("%d, %s:\n got %v\nwant %v", e.Number, e.Case, jsonText(got), jsonText(want))
		}
		if _, placed := e.Plan["ranks"]; placed != (code == 0) {
			t.Errorf("%d, %s: exit code %d", e.Number, e.Case, code)
		}
	}
}

// withoutTexts removes the texts whose wording is free (9.2).
func withoutTexts(value any) any {
	switch v := value.(type) {
	case map[string]any:
		m := make(map[string]any)
		for key, inner := range v {
			if key != "message" && key != "detail" {
				m[key] = withoutTexts(inner)
			}
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = withoutTexts(v[i])
		}
		return list
	}
	return value
}

func jsonText(value any) string {
	text, _ := json.Marshal(value)
	return string(text)
}
