package message

import (
	"math"
	"strings"
	"time"

	"remshell/pmiserver/pmix/bfrops"
)

// Options is the list of options in a request. If a key occurs twice, the last value is used.
type Options []bfrops.Info

// Find returns the value of the last option with the given key.
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

// Collect reports whether a fence must distribute the data that its ranks have committed.
func (o Options) Collect() bool { return o.flag("pmix.collect") }

// Immediate reports whether a Get must be answered without waiting, from data that the server already has.
func (o Options) Immediate() bool { return o.flag("pmix.immediate") }

// ContextID reports whether the client wants a context ID for a PMIx group.
func (o Options) ContextID() bool { return o.flag("pmix.grp.actxid") }

// Timeout returns how long the client is willing to wait, or 0 for no limit. The client may send the number of seconds
// as an integer of any type (rule PMIX-27).
func (o Options) Timeout() time.Duration {
	v, _ := o.Find("pmix.timeout")
	seconds, ok := v.Number()
	if !ok || seconds <= 0 {
		return 0
	}
	return time.Duration(min(seconds, math.MaxInt32)) * time.Second
}

// Wait returns whether a Lookup waits until names are published, and for how many of its keys it waits.
// If keys is 0, it waits for all (rule PMIX-40).
func (o Options) Wait() (keys int, mustWait bool) {
	v, found := o.Find("pmix.wait")
	if !found || v.Type == bfrops.Bool || v.Type == bfrops.Undefined {
		return 0, found && v.Flag()
	}
	n, ok := v.Number()
	return int(max(0, min(n, bfrops.MaxInfos))), ok && n >= 0
}

// A Range says which processes may receive an event.
type Range uint8

// These are the ranges that a client uses to limit which processes receive an event.
const (
	OnNode      Range = 2 // processes of the same node
	InNamespace Range = 3
	InJob       Range = 4 // all processes of the job; the default
	Everywhere  Range = 5
	ListedProcs Range = 6 // processes of a list
)

// IsForNobody reports whether an event with this range is sent to no client. It returns true for an event that is meant
// only for the resource manager or for the sender itself, and for an invalid range.
func (r Range) IsForNobody() bool { return r == 1 || r > ListedProcs }

// A Persistence says how long a published name is kept.
type Persistence uint8

// FirstRead means that a name is removed after the first look-up that finds it. With any other persistence,
// the name is kept until the job ends (rule PMIX-41).
const FirstRead Persistence = 1

// Persistence returns how long the names of a Publish are kept.
func (o Options) Persistence() Persistence {
	n, _ := o.uint8Option("pmix.persist")
	return Persistence(n)
}

func (o Options) uint8Option(key string) (uint8, bool) {
	v, _ := o.Find(key)
	n, ok := v.Number()
	return uint8(n), ok && 0 <= n && n <= math.MaxUint8
}

// Data returns the names and values to publish, which are all infos whose keys do not begin with "pmix.".
func (o Options) Data() (data []bfrops.Pair) {
	for _, i := range o {
		if !strings.HasPrefix(i.Key, "pmix.") {
			data = append(data, bfrops.Pair{Key: i.Key, Value: i.Value})
		}
	}
	return data
}
