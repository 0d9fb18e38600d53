package pmix

import (
	"cmp"
	"slices"
)

// A getQueue holds the Gets that wait for a rank, grouped by key. This makes it fast to find the Gets that a
// commit answers, and to remove a Get that has timed out. The mu of the rank's group guards it.
type getQueue struct {
	byKey     map[string]map[*pendingGet]bool // inner maps are never empty
	count     int
	lastOrder int // order of the Get that was added last
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

// removeGet removes a Get. It returns false if the Get is not in the queue.
func (x *getQueue) removeGet(w *pendingGet) bool {
	gets := x.byKey[w.key]
	if !gets[w] {
		return false
	}
	x.count--
	if delete(gets, w); len(gets) == 0 {
		delete(x.byKey, w.key)
	}
	return true
}

// takeByKey removes the Gets of a key for which match returns true. It returns the removed Gets in the order of their
// arrival.
func (x *getQueue) takeByKey(key string, match func(*pendingGet) bool) (removed []*pendingGet) {
	for w := range x.byKey[key] {
		if match(w) {
			removed = append(removed, w)
		}
	}
	for _, w := range removed {
		x.removeGet(w)
	}
	slices.SortFunc(removed, func(a, b *pendingGet) int { return cmp.Compare(a.order, b.order) })
	return removed
}

// takeAll removes the Gets, of all keys, for which match returns true. It returns the removed Gets in the order of
// their arrival.
func (x *getQueue) takeAll(match func(*pendingGet) bool) (removed []*pendingGet) {
	for key := range x.byKey {
		removed = append(removed, x.takeByKey(key, match)...)
	}
	slices.SortFunc(removed, func(a, b *pendingGet) int { return cmp.Compare(a.order, b.order) })
	return removed
}

// forEach calls do for each Get in the queue.
func (x *getQueue) forEach(do func(*pendingGet)) {
	for _, gets := range x.byKey {
		for w := range gets {
			do(w)
		}
	}
}

func anyGet(*pendingGet) bool { return true }
