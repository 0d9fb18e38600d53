//go:build linux

package helper

import (
	"testing"

	"remshell/wire"
)

// What is told of a group elsewhere is believed only where it can be.
func TestGroupElsewhere(t *testing.T) {
	e := &elsewhere{of: &wire.Prepare{PMI: wire.PMISetup{Slots: 8}}, server: "srv"}
	for what, test := range map[string]struct {
		where wire.Peered
		good  bool
	}{
		"two ranks on two nodes":  {wire.Peered{Nodes: []string{"a", "b"}, Of: []int{0, 1}, Apps: []int{2}}, true},
		"a section without ranks": {wire.Peered{Nodes: []string{"a"}, Of: []int{0}, Apps: []int{0, 1}}, true},
		"nothing":                 {wire.Peered{}, false},
		"a rank on no node":       {wire.Peered{Nodes: []string{"a"}, Of: []int{1}, Apps: []int{1}}, false},
		"a node without ranks":    {wire.Peered{Nodes: []string{"a", "b"}, Of: []int{0}, Apps: []int{1}}, false},
		"too many sections":       {wire.Peered{Nodes: []string{"a"}, Of: []int{0}, Apps: []int{1, 1}}, false},
		"no sections":             {wire.Peered{Nodes: []string{"a"}, Of: []int{0}}, false},
	} {
		info, err := e.describe("rs-0@1", &test.where)
		if (err == nil) != test.good || test.good && (info.Universe != 8 || info.Here != -1) {
			t.Errorf("%s: %+v, %v", what, info, err)
		}
	}
	e.of = &wire.Prepare{Job: "j", PMI: wire.PMISetup{Token: "0123456789abcdef"}}
	for _, space := range []string{"", "x", "rs-0123456789abcdef@", "rs-0123456789abcdef@01", "rs-0123456789abcdef@-1", "rs-0123456789abcdee@1", "rs-0123456789abcdef@99999999999999999999"} {
		if _, err := e.Find(t.Context(), space); err != errNoGroup {
			t.Errorf("%q: %v", space, err)
		}
	}
}
