package psi

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"remshell/job"
)

// A feature that probes find is no error if no file gives it to a node. If a file does, the files decide.
func TestProbedFeatures(t *testing.T) {
	for _, test := range []struct {
		wanted, given string
		static        []string
		probed        []string
		bad           string
	}{
		{"infiniband nvidia", "", nil, []string{"infiniband", "nvidia"}, ""},
		{"infiniband,ib", "ib", []string{"ib"}, []string{"infiniband"}, ""},
		{"infiniband", "infiniband", []string{"infiniband"}, nil, ""},
		{"Infiniband", "", nil, nil, "Infiniband"},
		{"ib", "", nil, nil, "ib"},
	} {
		c := Settings{}
		err := c.readFeatures(Input{Flags: Flags{Features: &test.wanted}, HostFeatures: strings.Fields(test.given)})
		var refused *Error
		if errors.As(err, &refused); (refused != nil) != (test.bad != "") || refused != nil && (refused.Token != test.bad || !slices.Contains(refused.Allowed, job.ProbedFeatures[0])) {
			t.Errorf("%s: %v", test.wanted, err)
		}
		if refused == nil && (!slices.Equal(c.Features, test.static) || !slices.Equal(c.ProbedFeatures, test.probed)) {
			t.Errorf("%s: %q, %q", test.wanted, c.Features, c.ProbedFeatures)
		}
	}
}
