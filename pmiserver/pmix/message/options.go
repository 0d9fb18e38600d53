package message

import (
	"math"
	"strings"
	"time"

	"remshell/pmiserver/pmix/bfrops"
)

// Options are the infos of a request. Of a key that comes twice the last counts.
type Options []bfrops.Info

// Find returns the value of a key.
func (o Options) Find(key string) (v bfrops.Value, found bool) {
	for _, i := range o {
		if i.Key == key {
			v, found = i.Value, true
		}
	}
	return v, found
}

func (o Options) flag(key string) bool {
	v, found := o.Find(key)
	return found && v.Flag()
}

// Collect reports whether a fence brings all that its ranks have committed to all of them.
func (o Options) Collect() bool { return o.flag("pmix.collect") }

// Immediate reports whether a Get is answered from what there is, without waiting.
func (o Options) Immediate() bool { return o.flag("pmix.immediate") }

// ContextID reports whether a group wants a number of its own.
func (o Options) ContextID() bool { return o.flag("pmix.grp.actxid") }

// Timeout returns how long the client waits, 0 without an end. It comes in whole seconds, as a
// number of any type (PMIX-27).
func (o Options) Timeout() time.Duration {
	v, _ := o.Find("pmix.timeout")
	seconds, ok := v.Number()
	if !ok || seconds <= 0 {
		return 0
	}
	return time.Duration(min(seconds, math.MaxInt32)) * time.Second
}

// Wait returns for how many of its keys a Lookup waits, 0 for all, and whether it waits
// (PMIX-40).
func (o Options) Wait() (keys int, waits bool) {
	v, found := o.Find("pmix.wait")
	if !found || v.Type == bfrops.Bool || v.Type == bfrops.Undefined {
		return 0, found && v.Flag()
	}
	n, ok := v.Number()
	return int(max(0, min(n, bfrops.MaxInfos))), ok && n >= 0
}

// A Range says who may hear of an event, or find a name.
type Range uint8

// The ranges that mean something here; of names all of them do, as they tell two of one key
// apart.
const (
	OnNode      Range = 2 // processes of the node
	InNamespace Range = 3
	InJob       Range = 4 // all that we serve; what holds when nothing is said
	Everywhere  Range = 5
	ListedProcs Range = 6 // those of a list
)

// IsForNobody reports whether nobody whom we serve is to hear of what has a range: it is for a resource
// manager, for the process itself, or no range.
func (r Range) IsForNobody() bool { return r == 1 || r > ListedProcs }

// Range returns who may find what is published. What a Lookup says of it means nothing: Open
// MPI 5.0 sends there what was in memory.
func (o Options) Range() Range {
	if n, ok := o.uint8Option("pmix.range"); ok {
		return Range(n)
	}
	return InJob
}

// A Persistence says when a published name goes.
type Persistence uint8

// FirstRead is the persistence of a name that goes when it has been found once. Any other one
// stays as long as the job (PMIX-41).
const FirstRead Persistence = 1

// Persistence returns when the names of a Publish go.
func (o Options) Persistence() Persistence {
	n, _ := o.uint8Option("pmix.persist")
	return Persistence(n)
}

func (o Options) uint8Option(key string) (uint8, bool) {
	v, _ := o.Find(key)
	n, ok := v.Number()
	return uint8(n), ok && 0 <= n && n <= math.MaxUint8
}

// Data returns what a Publish publishes: what is under other keys than those of PMIx.
func (o Options) Data() (data []bfrops.Pair) {
	for _, i := range o {
		if !strings.HasPrefix(i.Key, "pmix.") {
			data = append(data, bfrops.Pair{Key: i.Key, Value: i.Value})
		}
	}
	return data
}
