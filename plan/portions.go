package plan

import (
	"slices"

	"remshell/job"
)

// portions are those that ranks of the plan have, each once: a plan of a million ranks on nodes that
// are alike has as many as one node.
type portions map[portionKey][]*job.Portion

// A portionKey tells most of them apart.
type portionKey struct{ slot, slots, cpu, cpus int }

// alikeMost is how many portions of one key are compared with a new one. Where there are more, the
// nodes are not alike, and each rank has its own.
const alikeMost = 8

// common is the portion that equals p.
func (known portions) common(p job.Portion) *job.Portion {
	key := portionKey{lowest(p.Slots), len(p.Slots), lowest(p.Held), len(p.Held)}
	for _, other := range known[key] {
		if other.MemMode == p.MemMode && same(other.Slots, p.Slots) && same(other.Held, p.Held) &&
			same(other.CPUs, p.CPUs) && same(other.Mems, p.Mems) {
			return other
		}
	}
	fresh := new(job.Portion)
	*fresh = p
	if len(known[key]) < alikeMost {
		known[key] = append(known[key], fresh)
	}
	return fresh
}

// same reports whether two lists are the same, of which none and an empty one are not.
func same(a, b []int) bool { return (a == nil) == (b == nil) && slices.Equal(a, b) }

// lowest is the first number of an ascending list; -1: it has none.
func lowest(numbers []int) int {
	if len(numbers) == 0 {
		return -1
	}
	return numbers[0]
}
