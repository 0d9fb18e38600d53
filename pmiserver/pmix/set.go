package pmix

import (
	"errors"
	"slices"
	"strings"

	"remshell/idset"
	"remshell/pmiserver/fence"
	"remshell/pmiserver/pmix/bfrops"
)

// errNoSet is the fault of a list of processes that is empty, or names some that there are not.
var errNoSet = errors.New("names no process, or one that there is not")

// A set is the processes that meet: the ranks of groups, ascending by the groups' names. Lists
// that name the same processes, in whatever form and order, are the same set (PMIX-29).
type set []setPart

// A setPart is what a group has in a set.
type setPart struct {
	group string
	space string // its namespace
	size  int    // ranks of the group
	ranks []int  // of it that are in the set, ascending; nil: all are
}

// newSet reads a list of processes. find returns the name of the group of a namespace, and how
// many ranks it has.
func newSet(procs []bfrops.Proc, find func(namespace string) (group string, size int, known bool)) (set, error) {
	var all set
	at := make(map[string]int) // of a namespace in all
	for _, p := range procs {
		i, seen := at[p.Namespace]
		if !seen {
			group, size, known := find(p.Namespace)
			if !known {
				return nil, errNoSet
			}
			i = len(all)
			at[p.Namespace], all = i, append(all, setPart{group: group, space: p.Namespace, size: size, ranks: []int{}})
		}
		switch s := &all[i]; {
		case p.Rank == bfrops.Wildcard:
			s.ranks = nil
		case int64(p.Rank) >= int64(s.size):
			return nil, errNoSet
		case s.ranks != nil:
			s.ranks = append(s.ranks, int(p.Rank))
		}
	}
	if len(all) == 0 {
		return nil, errNoSet
	}
	for i := range all {
		all[i].tidy()
	}
	slices.SortFunc(all, func(a, b setPart) int { return strings.Compare(a.group, b.group) })
	return all, nil
}

// tidy brings the ranks into their one form.
func (s *setPart) tidy() {
	if s.ranks == nil {
		return
	}
	slices.Sort(s.ranks)
	if s.ranks = slices.Compact(s.ranks); len(s.ranks) == s.size {
		s.ranks = nil
	}
}

// has reports whether a rank is in the set.
func (s set) has(group string, rank int) bool {
	for _, part := range s {
		if part.group == group {
			_, in := slices.BinarySearch(part.ranks, rank)
			return in || part.ranks == nil
		}
	}
	return false
}

// isWhole reports whether the set is a group, all of it and no more.
func (s set) isWhole() bool { return len(s) == 1 && s[0].ranks == nil }

// names reports whether processes of a group are in the set.
func (s set) names(group string) bool {
	return slices.ContainsFunc(s, func(part setPart) bool { return part.group == group })
}

// count returns how many processes the set has.
func (s set) count() (n int) {
	for _, part := range s {
		if n += len(part.ranks); part.ranks == nil {
			n += part.size
		}
	}
	return n
}

// members names the set as fences do.
func (s set) members() fence.Members {
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
