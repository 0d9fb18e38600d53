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
	Source         string                  // of the request, for messages: --node-set, class amd
	ModifierSource func(key string) string // the source of a modifier; nil: the source has one text for all

	Spec      *string           // the request in one text, or
	Parts     *RequestParts     // in pieces; nil both: none is made
	Modifiers map[string]string // by modifier
}

// RequestParts are a request as configurations write it.
type RequestParts struct {
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

// WithDefaults is a level with what a weaker one of the same kind says beside it.
func (l Level) WithDefaults(weaker Level) Level {
	l.Source, l.Spec, l.Parts = cmp.Or(l.Source, weaker.Source), cmp.Or(l.Spec, weaker.Spec), cmp.Or(l.Parts, weaker.Parts)
	if l.ModifierSource == nil {
		l.ModifierSource = weaker.ModifierSource
	}
	said := maps.Clone(weaker.Modifiers)
	if said == nil {
		said = make(map[string]string)
	}
	maps.Copy(said, l.Modifiers)
	l.Modifiers = said
	return l
}

// hasRequest reports whether the level makes a request, or says that none is to be made.
func (l Level) hasRequest() bool { return l.Spec != nil || l.Parts != nil }

// parseRequest reads it.
func (l Level) parseRequest(kinds Kinds) (Request, error) {
	var r Request
	var err error
	switch {
	case l.Spec != nil:
		r, err = Parse(*l.Spec, kinds)
	case l.Parts != nil:
		r, err = ParseParts(l.Parts.Policy, l.Parts.Attribute, l.Parts.List, kinds)
	}
	return r, atSource(l.Source, err)
}

// requestText is the request as it was said.
func (l Level) requestText() string {
	if l.Spec != nil {
		return *l.Spec
	}
	return l.Parts.Policy + ":" + l.Parts.Attribute
}

// modifierSource is the source of a modifier.
func (l Level) modifierSource(key string) string {
	if l.ModifierSource == nil {
		return l.Source
	}
	return l.ModifierSource(key)
}

// A SourceError is what one source says, and may not.
type SourceError struct {
	Source string
	*WordError
}

func (r *SourceError) Error() string { return r.Source + ": " + r.WordError.Error() }

// atSource says where a word is.
func atSource(source string, err error) error {
	if wrong, is := err.(*WordError); is {
		return &SourceError{source, wrong}
	}
	return err
}

// Levels are all that is said of node sets, by strength.
type Levels struct {
	Cluster, Class, Variables, Flags Level

	MaxDelay    time.Duration // the longest delay that a user may have
	UsersDenied bool          // users may not say anything
	NodesListed bool          // the nodes are: what cluster and class request does not count
}

// A Setting is what counts of all levels. The zero value: no sets.
type Setting struct {
	Request
	Source    string // the source of the request
	Optional  bool
	Tolerance Tolerance
	Priority  Priority
	Plus      Plus
	Delay     time.Duration

	Origins        map[string]string // the source of each modifier that was said and counts
	RequestedDelay time.Duration     // the delay that was asked for, if it was longer than it may be
}

// The levels by strength, strongest first: byStrength has them so.
const (
	flagLevel = iota
	variableLevel
	classLevel
	clusterLevel
)

func (l Levels) byStrength() []Level { return []Level{l.Flags, l.Variables, l.Class, l.Cluster} }

// parseRequests judges the requests, the weakest first, and tells the strongest; -1: there is none.
func (l Levels) parseRequests(kinds Kinds) (made Request, strongest int, err error) {
	strongest = -1
	for i, level := range slices.Backward(l.byStrength()) {
		if !level.hasRequest() || i == variableLevel && l.Flags.hasRequest() {
			continue // what a flag hides is not read
		}
		if i < classLevel && l.UsersDenied {
			return Request{}, 0, atSource(level.Source, refuseUserLevel(level.requestText()))
		}
		r, err := level.parseRequest(kinds)
		if err != nil {
			return Request{}, 0, err
		}
		if i < classLevel || !l.NodesListed {
			made, strongest = r, i
		}
	}
	return made, strongest, nil
}

// refuseUserLevel refuses what users say where they may not.
func refuseUserLevel(text string) error {
	return &WordError{Token: text, Allowed: []string{"none: the cluster file switches them off"}}
}
