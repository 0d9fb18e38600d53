package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"remshell/job"
)

// LoadState reads what FormatState has written, and no settings are an empty text.
func TestState(t *testing.T) {
	most := 8
	since := time.Date(2026, 11, 27, 11, 40, 0, 0, time.UTC)
	for _, test := range []struct {
		s    job.NodeSettings
		want string
	}{
		{job.NodeSettings{}, ""},
		{job.NodeSettings{Drain: job.Drain{Since: since}}, "\n[drain]\nsince = 2026-11-27T11:40:00Z\n"},
		{job.NodeSettings{Drain: job.Drain{Since: since, Reason: `a "b" \ é`}, Allow: job.Allow{Groups: []string{"chem", "7"}, MaxProcs: &most}},
			"\n[drain]\nsince = 2026-11-27T11:40:00Z\nreason = \"a \\\"b\\\" \\\\ é\"\n\n[allow]\ngroups = [\"chem\", \"7\"]\nmaxproc = 8\n"},
		{job.NodeSettings{Allow: job.Allow{Users: []string{"alice"}}}, "\n[allow]\nusers = [\"alice\"]\n"},
		{job.NodeSettings{Slice: job.SliceSetting{Length: 90 * time.Second, From: since, Before: time.Second}}, "\n[gang]\nslice = \"1m30s\"\nfrom = 2026-11-27T11:40:00Z\nbefore = \"1s\"\n"},
	} {
		text := FormatState(test.s)
		if strings.TrimPrefix(text, stateHead) != test.want {
			t.Errorf("%+v: %q, want %q", test.s, text, test.want)
		}
		if got, err := LoadState("f", text); err != nil || !reflect.DeepEqual(got, test.s) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

func TestStateFaults(t *testing.T) {
	for text, want := range map[string]string{
		"[drain]\n":                                   "f:1: since: is missing",
		"[drain]\nsince = 3\n":                        "f:2: since: 3 is not a time such as 2026-",
		"[drain]\nsince = 2026-11-27\n":               "f:2: since: a date is not a time such as",
		"[drain]\nsince = 0001-01-01T00:00:00Z\n":     "f:2: since: the year 1 is not between 1970 and 9998",
		"[drain]\nreason = \"a\\nb\"\n":               `f:2: reason: the reason "a\nb" must be one line of text`,
		"drain = 3":                                   "f:1: drain: 3 is not a table; write [drain]",
		"[allow]\n\nusers = [\"a b\"]\n":              `f:3: users: "a b" is not a valid user name`,
		"[allow]\ngroups = []\n":                      "f:2: groups: the list of groups is empty",
		"[allow]\nmaxproc = -1\n":                     "f:2: maxproc: -1 is not a number from 0 to 1000000",
		"[allow]\nmaxproc = \"x\"\n":                  `f:2: maxproc: "x" is not a number`,
		"[allow]\nmaxprocs = 2\n":                     `f:2: unknown key "maxprocs" (did you mean "maxproc"?)`,
		"[gang]\nslice = \"30s\"\nbefore = \"10s\"\n": "f:1: from: is missing",
		"[gang]\nslice = \"1ms\"\nbefore = \"10s\"\nfrom = 2026-11-27T11:40:00Z\n": "f:2: slice: \"1ms\" is not a time from 1s to 1h0m0s",
		"[slide]\n": `f:1: unknown key "slide"`,
		"[allow]\nusers = [" + strings.Repeat("\"a\",", 65) + "]\n": "f:2: users: the list has 65 users, but at most 64 are allowed; use a group",
		"\x00":          "f:1: ",
		"[allow]\na = ": "f:2: ",
	} {
		if s, err := LoadState("f", text); err == nil || !strings.Contains(err.Error(), want) || !reflect.DeepEqual(s, job.NodeSettings{}) {
			t.Errorf("%q: %+v, %v, want %q", text, s, err, want)
		}
	}
}

// The settings restrict in addition to node.toml: the stricter of both counts.
func TestStateRules(t *testing.T) {
	most := 8
	node, err := LoadAdminRules("node", "users = [\"alice\", 7]\nmaxproc = 4\n", nobody)
	if err != nil {
		t.Fatal(err)
	}
	state := func(s job.NodeSettings) RuleSet { return RuleSet{node, StateRules("state", s, nobody)} }
	drain := job.Drain{Since: time.Date(2026, 11, 27, 11, 40, 0, 0, time.UTC), Reason: "disk"}
	for _, test := range []struct {
		s    job.NodeSettings
		uid  int
		want string
	}{
		{job.NodeSettings{}, 7, ""},
		{job.NodeSettings{}, 5, "the host is reserved for other users (node)"},
		{job.NodeSettings{Allow: job.Allow{Users: []string{"5"}}}, 5, "the host is reserved for other users (node)"},
		{job.NodeSettings{Allow: job.Allow{Users: []string{"alice"}}}, 7, "the host is reserved for other users (state)"},
		{job.NodeSettings{Allow: job.Allow{Users: []string{"7", "bob"}}}, 7, ""},
		{job.NodeSettings{Allow: job.Allow{Groups: []string{"chem"}}}, 7, "the host is reserved for other groups (state)"},
		{job.NodeSettings{Drain: drain}, 5, "the host is reserved for other users (node)"},
		{job.NodeSettings{Drain: drain}, 0, "was drained by root on 2026-11-27 11:40: disk"},
	} {
		if got, drained := state(test.s).ForbidReason(test.uid, nil); got != test.want || drained != strings.HasPrefix(got, "was drained") {
			t.Errorf("%+v, uid %d: %q, %v, want %q", test.s, test.uid, got, drained, test.want)
		}
	}
	if r := state(job.NodeSettings{Allow: job.Allow{MaxProcs: &most}}); r.SmallerMaxProcs(-1) != 4 || r.MaxProcsReason(5) != "the host may run at most 4 processes at a time (node)" {
		t.Errorf("%+v", r)
	}
	most = 2
	if r := state(job.NodeSettings{Allow: job.Allow{MaxProcs: &most}}); r.SmallerMaxProcs(-1) != 2 || r.MaxProcsReason(3) != "the host may run at most 2 processes at a time (state)" {
		t.Errorf("%+v", r)
	}
	r := state(job.NodeSettings{Allow: job.Allow{Users: []string{"bert"}}})
	if w := r.Warnings(); len(w) != 1 || w[0].Error() != `state: users: nobody is called "bert", so the name is ignored` {
		t.Errorf("%v", w)
	}
}

// For any text LoadState returns an error, or settings that FormatState can write and LoadState reads again.
func FuzzLoadState(f *testing.F) {
	f.Add("[drain]\nsince = 2026-11-27T11:40:00Z\nreason = \"a\"\n[allow]\nusers = [\"a\", 3]\ngroups = \"b\"\nmaxproc = 4\n")
	f.Add("drain = {since = 1979-05-27T07:32:00-07:00}\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := LoadState("f", text)
		if err != nil {
			return
		}
		again, err := LoadState("f", FormatState(s))
		if err != nil || !reflect.DeepEqual(s, again) {
			t.Errorf("%q: %+v, again %+v, %v", text, s, again, err)
		}
	})
}
