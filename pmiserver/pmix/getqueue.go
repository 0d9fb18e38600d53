package pmix

import (
	"cmp"
	"slices"
)

// Waiters are Gets that wait for a rank, by the key that they want: however many they are, who commits pays for
// those that he serves, and who gives up for himself. They are guarded by the mu of the rank's group.
type getQueue struct {
	byKey     map[string]map[*pendingGet]bool // by key; never empty
	count     int
	lastOrder int // number of the one that came last
}

func (x *getQueue) addGet(w *pendingGet) {
	if x.byKey == nil {
		x.byKey = make(map[string]map[*pendingGet]bool)
	}
	if x.byKey[w.key] == nil {
		x.byKey[w.key] = make(map[*pendingGet]bool)
	}
	x.byKey[w.key][w] = true
	x.count++
	x.lastOrder++
	w.order = x.lastOrder
}

// removeGet lets one wait no longer; false: it does not.
func (x *getQueue) removeGet(w *pendingGet) bool {
	some := x.byKey[w.key]
	if !some[w] {
		return false
	}
	x.count--
	if delete(some, w); len(some) == 0 {
		delete(x.byKey, w.key)
	}
	return true
}

// takeByKey takes out those that want a key and may have it, in the order in which they came.
func (x *getQueue) takeByKey(key string, may func(*pendingGet) bool) (taken []*pendingGet) {
	for w := range x.byKey[key] {
		if may(w) {
			taken = append(taken, w)
		}
	}
	for _, w := range taken {
		x.removeGet(w)
	}
	slices.SortFunc(taken, func(a, b *pendingGet) int { return cmp.Compare(a.order, b.order) })
	return taken
}

// takeAll is take for all keys.
func (x *getQueue) takeAll(may func(*pendingGet) bool) (taken []*pendingGet) {
	for key := range x.byKey {
		taken = append(taken, x.takeByKey(key, may)...)
	}
	slices.SortFunc(taken, func(a, b *pendingGet) int { return cmp.Compare(a.order, b.order) })
	return taken
}

// forEach calls a function for all of them.
func (x *getQueue) forEach(do func(*pendingGet)) {
	for _, some := range x.byKey {
		for w := range some {
			do(w)
		}
	}
}

func anyGet(*pendingGet) bool { return true }
