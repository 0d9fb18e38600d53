//go:build linux

package helper

import (
	"testing"

	"remshell/wire"
)

// mpiexec's description of a group on other nodes is used only if it is consistent.
func TestRemoteGroupInfo(t *testing.T) {
	e := &remoteGroups{prepare: &wire.Prepare{PMI: wire.PMISetup{Slots: 8}}, server: "srv"}
	for what, test := range map[string]struct {
		where wire.RankMap
		good  bool
	}{
		"two ranks on two nodes": {wire.RankMap{Nodes: []string{"a", "b"}, NodeOfRank: []int{0, 1}, AppSizes: []int{2}}, true},
		"an app without ranks":   {wire.RankMap{Nodes: []string{"a"}, NodeOfRank: []int{0}, AppSizes: []int{0, 1}}, true},
		"nothing":                {wire.RankMap{}, false},
		"a rank on no node":      {wire.RankMap{Nodes: []string{"a"}, NodeOfRank: []int{1}, AppSizes: []int{1}}, false},
		"a node without ranks":   {wire.RankMap{Nodes: []string{"a", "b"}, NodeOfRank: []int{0}, AppSizes: []int{1}}, false},
		"too many apps":          {wire.RankMap{Nodes: []string{"a"}, NodeOfRank: []int{0}, AppSizes: []int{1, 1}}, false},
		"no apps":                {wire.RankMap{Nodes: []string{"a"}, NodeOfRank: []int{0}}, false},
	} {
		info, err := e.jobInfo("rs-0@1", &test.where)
		if (err == nil) != test.good || test.good && (info.Universe != 8 || info.HereNode != -1) {
			t.Errorf("%s: %+v, %v", what, info, err)
		}
	}
	e.prepare = &wire.Prepare{Job: "j", PMI: wire.PMISetup{Token: "0123456789abcdef"}}
	for _, space := range []string{"", "x", "rs-0123456789abcdef@", "rs-0123456789abcdef@01", "rs-0123456789abcdef@-1", "rs-0123456789abcdee@1", "rs-0123456789abcdef@99999999999999999999"} {
		if _, err := e.FindGroup(t.Context(), space); err != errNoGroup {
			t.Errorf("%q: %v", space, err)
		}
	}
}
