package drain

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"remshell/config"
	"remshell/job"
)

// people knows alice, and the group chem.
var people = func() config.IDs {
	only := func(known string) func(string) (int, error) {
		return func(name string) (int, error) {
			if name == known {
				return 7, nil
			}
			return 0, fmt.Errorf("nobody is called %q", name)
		}
	}
	return config.IDs{User: only("alice"), Group: only("chem")}
}()

func TestSetting(t *testing.T) {
	for text, want := range map[string]string{
		"users=alice,7":                     "{alice,7  }",
		"MAXPROC=4 groups=chem":             "{ chem 4}",
		"users=any":                         "{any  }",
		"maxproc=0":                         "{  0}",
		"":                                  "no setting is given; allowed: users=NAMES, groups=NAMES, maxproc=N",
		"user=alice":                        `"user=alice" is not a setting; allowed: users=`,
		"users=":                            "users has no value; users=any removes the restriction",
		"users=a users=b":                   "users is given twice",
		"users=a,,b":                        `"" is not a valid user name`,
		"maxproc=-1":                        "maxproc=-1 is neither a number from 0 to 1000000 nor the word any",
		"maxproc=1000001":                   "maxproc=1000001 is neither",
		"groups=" + strings.Repeat("g", 65): "is not a valid group name",
	} {
		var s Setting
		err := s.UnmarshalText([]byte(text))
		if got := fmt.Sprint(s); err == nil && got != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %s, %v, want %q", text, got, err, want)
		}
	}
}

// A change keeps what it does not name.
func TestChange(t *testing.T) {
	now := time.Date(2026, 11, 27, 11, 40, 0, 5, time.UTC)
	var s job.NodeSettings
	for _, test := range []struct {
		change Change
		want   string // the text of the settings, or of the error
	}{
		{Change{Undrain: true}, "is not drained, and mpijob allow does not restrict it"},
		{Change{Drain: true, Reason: "disk"}, "was drained by root on 2026-11-27 11:40: disk"},
		{Change{Drain: true}, "was drained by root on 2026-11-27 11:40: disk"},
		{Change{Drain: true, Reason: "power"}, "was drained by root on 2026-11-27 11:40: power"},
		{Change{Drain: true, Reason: "a\nb"}, `the reason "a\nb" must be one line of text`},
		{Change{Setting: Setting{MaxProcs: "1"}}, "was drained by root on 2026-11-27 11:40: power; it runs at most 1 process at a time (set by mpijob allow)"},
		{Change{Undrain: true}, "runs at most 1 process at a time (set by mpijob allow)"},
		{Change{Setting: Setting{Users: "alice,12", Groups: "chem"}}, "runs only jobs of users alice, 12 in groups chem, and at most 1 process at a time (set by mpijob allow)"},
		{Change{Setting: Setting{Users: "bob"}}, `nobody is called "bob"`},
		{Change{Setting: Setting{Users: "any", MaxProcs: "any"}}, "runs only jobs of groups chem (set by mpijob allow)"},
		{Change{Setting: Setting{Groups: "any"}}, "is not drained, and mpijob allow does not restrict it"},
		{Change{Slice: 30 * time.Second}, "runs --gang jobs in turns of 30s from 2026-11-27 11:40:17 onwards (set by mpijob gang)"},
		{Change{Slice: time.Minute}, "runs --gang jobs in turns of 1m0s from 2026-11-27 11:40:18 onwards (set by mpijob gang)"},
		{Change{Slice: 1}, "a slice of 1ns is not allowed; give a time from 1s to 1h0m0s"},
	} {
		changed, err := test.change.apply(s, now, people, 10*time.Second)
		got := settingsText(changed)
		if err != nil {
			got = err.Error()
		} else {
			s = changed
		}
		if got != test.want {
			t.Errorf("%+v: %q, want %q", test.change, got, test.want)
		}
		now = now.Add(time.Second)
	}
}

// Any text is an error, or a setting that a node without settings takes.
func FuzzSetting(f *testing.F) {
	f.Add("users=alice,7 groups=any maxproc=4")
	f.Fuzz(func(t *testing.T, text string) {
		var s Setting
		if s.UnmarshalText([]byte(text)) != nil {
			return
		}
		a, err := s.apply(job.Allow{}, config.IDs{User: anyID, Group: anyID})
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if _, err := config.LoadState("f", config.FormatState(job.NodeSettings{Allow: a})); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	})
}
