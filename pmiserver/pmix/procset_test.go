package pmix

import (
	"testing"

	"remshell/pmiserver/fence"
	"remshell/pmiserver/pmix/bfrops"
)

// procs makes a list of processes from pairs of namespace and rank.
func procs(pairs ...any) (list []bfrops.Proc) {
	for i := 0; i < len(pairs); i += 2 {
		switch rank := pairs[i+1].(type) {
		case int:
			list = append(list, bfrops.Proc{Namespace: pairs[i].(string), Rank: bfrops.Rank(rank)})
		case bfrops.Rank:
			list = append(list, bfrops.Proc{Namespace: pairs[i].(string), Rank: rank})
		}
	}
	return list
}

// findGroup knows two namespaces: old-0 of group k with 4 ranks, and new-1 of group k_1 with 2.
func findGroup(namespace string) (group string, size int, known bool) {
	switch namespace {
	case "old-0":
		return "k", 4, true
	case "new-1":
		return "k_1", 2, true
	}
	return "", 0, false
}

// Lists of the same processes give the same set, in whatever form they are written.
func TestSetIsCanonical(t *testing.T) {
	const all = bfrops.Wildcard
	for want, lists := range map[fence.Members][][]bfrops.Proc{
		"k": {procs("old-0", all), procs("old-0", 3, "old-0", 1, "old-0", 0, "old-0", 2),
			procs("old-0", 1, "old-0", all), procs("old-0", all, "old-0", 2, "old-0", 2)},
		"k[1-2]":      {procs("old-0", 1, "old-0", 2), procs("old-0", 2, "old-0", 1, "old-0", 2)},
		"k[0,2-3]":    {procs("old-0", 3, "old-0", 0, "old-0", 2)},
		"k,k_1":       {procs("old-0", all, "new-1", all), procs("new-1", 1, "old-0", all, "new-1", 0)},
		"k[3],k_1[0]": {procs("new-1", 0, "old-0", 3)},
	} {
		for _, list := range lists {
			s, err := newProcSet(list, findGroup)
			if err != nil || s.fenceMembers() != want {
				t.Errorf("%v is %q (%v), want %q", list, s.fenceMembers(), err, want)
			}
			if _, err := fence.ParseID(fence.ID{Members: s.fenceMembers()}.String()); err != nil {
				t.Errorf("%v: a fence of %q: %v", list, s.fenceMembers(), err)
			}
		}
	}
}

func TestEmptySet(t *testing.T) {
	for why, list := range map[string][]bfrops.Proc{
		"empty":             nil,
		"no such namespace": procs("old-0", 1, "other-0", 1),
		"no such rank":      procs("old-0", 4),
		"a word for ranks":  procs("old-0", bfrops.LocalPeers),
	} {
		if s, err := newProcSet(list, findGroup); err != errBadProcs {
			t.Errorf("%s: %v, %v", why, s, err)
		}
	}
}

func TestSetMembers(t *testing.T) {
	s, err := newProcSet(procs("old-0", 3, "old-0", 1, "new-1", bfrops.Wildcard), findGroup)
	if err != nil {
		t.Fatal(err)
	}
	for rank, in := range []bool{false, true, false, true} {
		if s.hasRank("k", rank) != in {
			t.Errorf("rank %d of k: %v", rank, !in)
		}
	}
	if !s.hasRank("k_1", 0) || s.hasRank("k_2", 0) || s.size() != 4 {
		t.Errorf("%v has %d members", s.fenceMembers(), s.size())
	}
}
