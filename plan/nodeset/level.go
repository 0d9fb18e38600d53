package nodeset

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// A Level is what one source says of node sets, as it says it: the cluster's configuration, that of a
// class, variables, flags. The zero value says nothing.
type Level struct {
	Source string                  // of the request, for messages: --node-set, class amd
	Key    func(key string) string // the source of a modifier; nil: the source has one text for all

	Spec   *string           // the request in one text, or
	Pieces *Pieces           // in pieces; nil both: none is made
	Said   map[string]string // by modifier
}

// Pieces are a request as configurations write it.
type Pieces struct {
	Policy, Attribute string
	List              []string
}

// The modifiers of a request, as Level.Said and Setting.Origins call them.
const (
	KeyOptional  = "optional"
	KeyTolerance = "tolerance"
	KeyPriority  = "priority"
	KeyPlus      = "plus"
	KeyDelay     = "delay"
)

// Keys are all of them, in the order in which they are judged.
var Keys = []string{KeyOptional, KeyTolerance, KeyPriority, KeyPlus, KeyDelay}

// Over is a level with what a weaker one of the same kind says beside it.
func (l Level) Over(weaker Level) Level {
	l.Source, l.Spec, l.Pieces = cmp.Or(l.Source, weaker.Source), cmp.Or(l.Spec, weaker.Spec), cmp.Or(l.Pieces, weaker.Pieces)
	if l.Key == nil {
		l.Key = weaker.Key
	}
	said := maps.Clone(weaker.Said)
	if said == nil {
		said = make(map[string]string)
	}
	maps.Copy(said, l.Said)
	l.Said = said
	return l
}

// requests reports whether the level makes a request, or says that none is to be made.
func (l Level) requests() bool { return l.Spec != nil || l.Pieces != nil }

// request reads it.
func (l Level) request(kinds Kinds) (Request, error) {
	var r Request
	var err error
	switch {
	case l.Spec != nil:
		r, err = Parse(*l.Spec, kinds)
	case l.Pieces != nil:
		r, err = Compose(l.Pieces.Policy, l.Pieces.Attribute, l.Pieces.List, kinds)
	}
	return r, at(l.Source, err)
}

// text is the request as it was said.
func (l Level) text() string {
	if l.Spec != nil {
		return *l.Spec
	}
	return l.Pieces.Policy + ":" + l.Pieces.Attribute
}

// key is the source of a modifier.
func (l Level) key(key string) string {
	if l.Key == nil {
		return l.Source
	}
	return l.Key(key)
}

// A Refusal is what one source says, and may not.
type Refusal struct {
	Source string
	*WordError
}

func (r *Refusal) Error() string { return r.Source + ": " + r.WordError.Error() }

// at says where a word is.
func at(source string, err error) error {
	if wrong, is := err.(*WordError); is {
		return &Refusal{source, wrong}
	}
	return err
}

// Levels are all that is said of node sets, by strength.
type Levels struct {
	Cluster, Class, Variables, Flags Level

	MaxDelay time.Duration // the longest delay that a user may have
	Closed   bool          // users may not say anything
	Listed   bool          // the nodes are: what cluster and class request does not count
}

// A Setting is what counts of all levels. The zero value: no sets.
type Setting struct {
	Request
	From      string // the source of the request
	Optional  bool
	Tolerance Tolerance
	Priority  Priority
	Plus      Plus
	Delay     time.Duration

	Origins map[string]string // the source of each modifier that was said and counts
	Cut     time.Duration     // the delay that was asked for, if it was longer than it may be
}

// The levels by strength, strongest first: byStrength has them so.
const (
	flagLevel = iota
	variableLevel
	classLevel
	clusterLevel
)

func (l Levels) byStrength() []Level { return []Level{l.Flags, l.Variables, l.Class, l.Cluster} }

// requests judges the requests, the weakest first, and tells the strongest; -1: there is none.
func (l Levels) requests(kinds Kinds) (made Request, strongest int, err error) {
	strongest = -1
	for i, level := range slices.Backward(l.byStrength()) {
		if !level.requests() || i == variableLevel && l.Flags.requests() {
			continue // what a flag hides is not read
		}
		if i < classLevel && l.Closed {
			return Request{}, 0, at(level.Source, closed(level.text()))
		}
		r, err := level.request(kinds)
		if err != nil {
			return Request{}, 0, err
		}
		if i < classLevel || !l.Listed {
			made, strongest = r, i
		}
	}
	return made, strongest, nil
}

// closed refuses what users say where they may not.
func closed(text string) error {
	return &WordError{Token: text, Allowed: []string{"none: the cluster file switches them off"}}
}
