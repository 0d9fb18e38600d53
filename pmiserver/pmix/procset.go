package pmix

import (
	"errors"
	"slices"
	"strings"

	"remshell/idset"
	"remshell/pmiserver/fence"
	"remshell/pmiserver/pmix/bfrops"
)

// errBadProcs is returned for a list of processes that is empty or names a process that does not exist.
var errBadProcs = errors.New("the list of processes is empty, or names a process that does not exist")

// A procSet is the set of processes of a collective, sorted by the names of their groups. Lists that contain
// the same processes in a different form or order give equal sets (rule PMIX-29).
type procSet []setPart

// A setPart contains the processes of a set that belong to one group.
type setPart struct {
	group     string
	namespace string // namespace of the group
	size      int    // number of ranks of the whole group
	ranks     []int  // ranks in the set, ascending; nil if all are
}

// newProcSet builds a set from a list of processes. find returns the name and size of the group with a given namespace.
// The only error is errBadProcs.
func newProcSet(procs []bfrops.Proc, find func(namespace string) (group string, size int, known bool)) (procSet, error) {
	var all procSet
	at := make(map[string]int) // index in all, by namespace
	for _, p := range procs {
		i, seen := at[p.Namespace]
		if !seen {
			group, size, known := find(p.Namespace)
			if !known {
				return nil, errBadProcs
			}
			i = len(all)
			at[p.Namespace], all = i, append(all, setPart{group: group, namespace: p.Namespace, size: size, ranks: []int{}})
		}
		switch s := &all[i]; {
		case p.Rank == bfrops.Wildcard:
			s.ranks = nil
		case int64(p.Rank) >= int64(s.size):
			return nil, errBadProcs
		case s.ranks != nil:
			s.ranks = append(s.ranks, int(p.Rank))
		}
	}
	if len(all) == 0 {
		return nil, errBadProcs
	}
	for i := range all {
		all[i].normalize()
	}
	slices.SortFunc(all, func(a, b setPart) int { return strings.Compare(a.group, b.group) })
	return all, nil
}

// normalize sorts the ranks and removes duplicates. If the set contains all ranks of the group, it sets ranks
// to nil.
func (s *setPart) normalize() {
	if s.ranks == nil {
		return
	}
	slices.Sort(s.ranks)
	if s.ranks = slices.Compact(s.ranks); len(s.ranks) == s.size {
		s.ranks = nil
	}
}

// hasRank reports whether a rank is in the set.
func (s procSet) hasRank(group string, rank int) bool {
	for _, part := range s {
		if part.group == group {
			_, in := slices.BinarySearch(part.ranks, rank)
			return in || part.ranks == nil
		}
	}
	return false
}

// isWhole reports whether the set is exactly one whole group.
func (s procSet) isWhole() bool { return len(s) == 1 && s[0].ranks == nil }

// hasGroup reports whether the set contains processes of a group.
func (s procSet) hasGroup(group string) bool {
	return slices.ContainsFunc(s, func(part setPart) bool { return part.group == group })
}

func (s procSet) size() (n int) {
	for _, part := range s {
		if n += len(part.ranks); part.ranks == nil {
			n += part.size
		}
	}
	return n
}

// fenceMembers converts the set to the form that package fence uses.
func (s procSet) fenceMembers() fence.Members {
	var text []byte
	for i, part := range s {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, part.group...)
		if part.ranks != nil {
			text = append(append(append(text, '['), idset.Text(part.ranks)...), ']')
		}
	}
	return fence.Members(text)
}
