package config

import (
	"strings"
	"testing"
	"time"

	"remshell/job"
)

func TestGang(t *testing.T) {
	for _, c := range []struct {
		text string
		want job.GangTerms
		err  string
	}{
		{"", job.DefaultGangTerms, ""},
		{"[gang]\nslice = \"30s\"\n", job.GangTerms{Parties: 4, Slice: 30 * time.Second}, ""},
		{"[gang]\nparties = 2\nslice = 5\n", job.GangTerms{Parties: 2, Slice: 5 * time.Second}, ""},
		{"[gang]\nparties = 17\n", job.GangTerms{}, "f:2: parties: 17 is not a number from 1 to 16"},
		{"[gang]\nparties = \"2\"\n", job.GangTerms{}, "f:2: parties: \"2\" is not a number from 1 to 16"},
		{"[gang]\nslice = \"10ms\"\n", job.GangTerms{}, "f:2: slice: \"10ms\" is not a time from 1s to 1h0m0s, such as \"10s\""},
		{"[gang]\nslices = 3\n", job.GangTerms{}, "f:2: unknown key \"slices\" in [gang]; allowed: parties and slice"},
	} {
		got, err := Load("f", c.text+"[[node]]\nname = \"n1\"\n", nobody)
		switch {
		case c.err == "" && (err != nil || got.Gang != c.want):
			t.Errorf("%q: %+v, %v, want %+v", c.text, got, err, c.want)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%q: %v, want %s", c.text, err, c.err)
		}
	}
}
