package config

import (
	"os"
	"strings"
	"testing"

	"remshell/limits"
)

// The commented example in the documentation is valid.
func TestNodeExample(t *testing.T) {
	text, err := os.ReadFile("../doc/node.toml")
	if err != nil {
		t.Fatal(err)
	}
	r, err := LoadAdminRules("node.toml", string(text), nobody)
	if err != nil || r.NoJobs || r.Users != nil || r.Groups != nil || len(r.Warnings) > 0 || *r.MaxProcs != 64 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestRules(t *testing.T) {
	for _, test := range []struct {
		text   string
		uid    int
		groups []int
		want   string
	}{
		{"", 5, nil, ""},
		{"runJobs = \"no\"", 5, nil, "the host does not allow jobs (f)"},
		{"runJobs = false", 0, nil, "the host does not allow jobs (f)"},
		{"users = [5]", 5, nil, ""},
		{"users = [\"alice\"]", 5, nil, "the host is reserved for other users (f)"},
		{"user = []", 0, nil, ""},
		{"groups = \"chem\"", 5, []int{7, 300}, ""},
		{"groups = [\"chem\"]", 5, []int{7}, "the host is reserved for other groups (f)"},
	} {
		r, err := LoadAdminRules("f", test.text, nobody)
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
		} else if got, drained := (RuleSet{r}).ForbidReason(test.uid, test.groups); got != test.want || drained {
			t.Errorf("%s: uid %d: %q, want %q", test.text, test.uid, got, test.want)
		}
	}
	one, _ := LoadAdminRules("f", "maxproc = 4", nobody)
	r := RuleSet{one}
	if r.SmallerMaxProcs(-1) != 4 || r.SmallerMaxProcs(3) != 3 || r.SmallerMaxProcs(9) != 4 || r.MaxProcsReason(4) != "" || r.MaxProcsReason(5) != "the host may run at most 4 processes at a time (f)" {
		t.Errorf("%+v", r)
	}
	var none RuleSet
	if why, _ := none.ForbidReason(5, nil); none.SmallerMaxProcs(-1) != -1 || why != "" || none.MaxProcsReason(1<<20) != "" {
		t.Error("no file forbids something")
	}
}

func TestNodeFaults(t *testing.T) {
	for text, want := range map[string]string{
		"\nrunjobs = \"maybe\"":           `f:2: runJobs: "maybe" is not yes or no`,
		"maxprocs = 3":                    `f:1: unknown key "maxprocs" (did you mean "maxproc"?)`,
		"# x\n\nusers = [[3]]":            `f:3: users: a list is neither a name nor a number`,
		"maxproc = -1":                    "f:1: maxproc: -1 is neither a number",
		"users = [1]\nuser = [2]":         "f:2: users and user mean the same; use only one of them",
		"ledger = \"/x\"":                 `f:1: unknown key "ledger"`,
		"runJobs = ":                      "f:1: ",
		"[[node]]\nname = \"a\"\n":        `f:1: unknown key "node"`,
		"runJobs = 1\nmaxproc = \"none\"": "f:2: maxproc: \"none\" is neither",
	} {
		if _, err := LoadAdminRules("f", text, nobody); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// LoadLimits reads a LimitsFile; the commented example in the documentation is valid.
func TestLoadLimits(t *testing.T) {
	text, err := os.ReadFile("../doc/limits.toml")
	if err != nil {
		t.Fatal(err)
	}
	b, err := LoadLimits("limits.toml", string(text))
	if err != nil || b[limits.HostMem] != 60<<30 || b[limits.NoFile] != 4096 || len(b) != 4 {
		t.Errorf("%v, %v", b, err)
	}
	for text, want := range map[string]string{
		"\nmem = \"1gb\"":         "f:2: mem: this limit applies to a whole job, so a node cannot check it; use hmem, hvmem or pcput",
		"hmem = \"1xb\"":          `f:1: hmem: the value "1xb" is not valid; write a size`,
		"# x\nmemory = 3":         `f:2: unknown limit "memory"`,
		"hmem = [3]":              "f:1: hmem: a list is neither a string nor a number",
		"# x\n[limits]\nhmem = 3": "f:2: [limits]: this file has no tables; write NAME = VALUE without a table",
		"hmem = ":                 "f:1: ",
	} {
		if _, err := LoadLimits("f", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// For any text LoadLimits returns an error or limits that a node can enforce.
func FuzzLoadLimits(f *testing.F) {
	f.Add("hmem = \"60gb\"\nnofile = 4096\n")
	f.Add("[a.b]\nc = 1979-05-27T07:32:00Z\n[[d]]\n")
	f.Fuzz(func(t *testing.T, text string) {
		bounds, err := LoadLimits("f", text)
		for name, most := range bounds {
			if err == nil && (!name.IsHostLimit() || most < 0) {
				t.Errorf("%q: %s=%d", text, name, most)
			}
		}
	})
}
