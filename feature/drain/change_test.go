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
		"users=a,,b":                        `"" is no name of a user`,
		"maxproc=-1":                        "maxproc=-1 is neither a number from 0 to 1000000 nor any",
		"maxproc=1000001":                   "maxproc=1000001 is neither",
		"groups=" + strings.Repeat("g", 65): "is no name of a group",
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
		{Change{Undrain: true}, "is not drained, and has no restriction of mpijob allow"},
		{Change{Drain: true, Reason: "disk"}, "is drained by root since 2026-11-27 11:40: disk"},
		{Change{Drain: true}, "is drained by root since 2026-11-27 11:40: disk"},
		{Change{Drain: true, Reason: "power"}, "is drained by root since 2026-11-27 11:40: power"},
		{Change{Drain: true, Reason: "a\nb"}, `the reason "a\nb" is not one line of text`},
		{Change{Setting: Setting{MaxProcs: "1"}}, "is drained by root since 2026-11-27 11:40: power; it runs at most 1 process at a time (mpijob allow)"},
		{Change{Undrain: true}, "runs at most 1 process at a time (mpijob allow)"},
		{Change{Setting: Setting{Users: "alice,12", Groups: "chem"}}, "runs jobs only of users alice, 12 in groups chem, at most 1 process at a time (mpijob allow)"},
		{Change{Setting: Setting{Users: "bob"}}, `nobody is called "bob"`},
		{Change{Setting: Setting{Users: "any", MaxProcs: "any"}}, "runs jobs only of groups chem (mpijob allow)"},
		{Change{Setting: Setting{Groups: "any"}}, "is not drained, and has no restriction of mpijob allow"},
		{Change{Slice: 30 * time.Second}, "has slices of 30s for gangs from 2026-11-27 11:40:17 on (mpijob gang)"},
		{Change{Slice: time.Minute}, "has slices of 1m0s for gangs from 2026-11-27 11:40:18 on (mpijob gang)"},
		{Change{Slice: 1}, "slices of 1ns cannot be"},
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
