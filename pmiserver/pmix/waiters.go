package pmix

import (
	"cmp"
	"slices"
)

// Waiters are Gets that wait for a rank, by the key that they want: however many they are, who commits pays for
// those that he serves, and who gives up for himself. They are guarded by the mu of the rank's group.
type waiters struct {
	of   map[string]map[*pendingGet]bool // by key; never empty
	many int
	last int // number of the one that came last
}

func (x *waiters) add(w *pendingGet) {
	if x.of == nil {
		x.of = make(map[string]map[*pendingGet]bool)
	}
	if x.of[w.key] == nil {
		x.of[w.key] = make(map[*pendingGet]bool)
	}
	x.of[w.key][w] = true
	x.many++
	x.last++
	w.number = x.last
}

// drop lets one wait no longer; false: it does not.
func (x *waiters) drop(w *pendingGet) bool {
	some := x.of[w.key]
	if !some[w] {
		return false
	}
	x.many--
	if delete(some, w); len(some) == 0 {
		delete(x.of, w.key)
	}
	return true
}

// take takes out those that want a key and may have it, in the order in which they came.
func (x *waiters) take(key string, may func(*pendingGet) bool) (taken []*pendingGet) {
	for w := range x.of[key] {
		if may(w) {
			taken = append(taken, w)
		}
	}
	for _, w := range taken {
		x.drop(w)
	}
	slices.SortFunc(taken, func(a, b *pendingGet) int { return cmp.Compare(a.number, b.number) })
	return taken
}

// takeAll is take for all keys.
func (x *waiters) takeAll(may func(*pendingGet) bool) (taken []*pendingGet) {
	for key := range x.of {
		taken = append(taken, x.take(key, may)...)
	}
	slices.SortFunc(taken, func(a, b *pendingGet) int { return cmp.Compare(a.number, b.number) })
	return taken
}

// each calls a function for all of them.
func (x *waiters) each(do func(*pendingGet)) {
	for _, some := range x.of {
		for w := range some {
			do(w)
		}
	}
}

func anybody(*pendingGet) bool { return true }
