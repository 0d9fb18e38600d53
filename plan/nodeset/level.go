package nodeset

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// A Level is the node-set request of one source, as text. A source is the cluster file, a class, the environment
// variables or the flags. The zero value requests nothing.
type Level struct {
	Source         string                  // source of the request, for messages: --node-set, class amd
	ModifierSource func(key string) string // returns the source of a modifier; if nil, Source is used

	Spec      *string           // the request in one text
	Parts     *RequestParts     // the request in parts; if Spec is nil too, there is none
	Modifiers map[string]string // texts by key: KeyOptional, ...
}

// RequestParts is a node-set request in separate parts, as configuration files contain it.
type RequestParts struct {
	Policy, Attribute string
	List              []string
}

// These are the keys of the modifiers of a node-set request, in Level.Modifiers and Setting.Origins.
const (
	KeyOptional  = "optional"
	KeyTolerance = "tolerance"
	KeyPriority  = "priority"
	KeyPlus      = "plus"
	KeyDelay     = "delay"
)

// Keys lists the keys of all modifiers, in the order in which they are checked.
var Keys = []string{KeyOptional, KeyTolerance, KeyPriority, KeyPlus, KeyDelay}

// WithDefaults returns l with its missing values taken from weaker. Both levels must belong to the same source, for
// example the flags.
func (l Level) WithDefaults(weaker Level) Level {
	l.Source, l.Spec, l.Parts = cmp.Or(l.Source, weaker.Source), cmp.Or(l.Spec, weaker.Spec), cmp.Or(l.Parts, weaker.Parts)
	if l.ModifierSource == nil {
		l.ModifierSource = weaker.ModifierSource
	}
	modifiers := maps.Clone(weaker.Modifiers)
	if modifiers == nil {
		modifiers = make(map[string]string)
	}
	maps.Copy(modifiers, l.Modifiers)
	l.Modifiers = modifiers
	return l
}

// hasRequest reports whether the level contains a request. The request "none" also counts.
func (l Level) hasRequest() bool { return l.Spec != nil || l.Parts != nil }

// parseRequest parses the node-set request of the level.
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

// requestText returns the node-set request for an error message. If the request is in parts, the text contains only the
// policy and the attribute.
func (l Level) requestText() string {
	if l.Spec != nil {
		return *l.Spec
	}
	return l.Parts.Policy + ":" + l.Parts.Attribute
}

// modifierSource returns the source that has set a modifier.
func (l Level) modifierSource(key string) string {
	if l.ModifierSource == nil {
		return l.Source
	}
	return l.ModifierSource(key)
}

// A SourceError is an error in the node-set request of one source.
type SourceError struct {
	Source string
	*WordError
}

func (r *SourceError) Error() string { return r.Source + ": " + r.WordError.Error() }

// atSource returns err as a *SourceError that names the source, if err is a *WordError. It returns any other error
// unchanged.
func atSource(source string, err error) error {
	if wordErr, is := err.(*WordError); is {
		return &SourceError{source, wordErr}
	}
	return err
}

// Levels holds the node-set requests of all sources.
type Levels struct {
	Cluster, Class, Variables, Flags Level

	MaxDelay    time.Duration // the longest delay that a user may request
	UsersDenied bool          // users may not request anything
	NodesListed bool          // the user listed hosts, so that the requests of cluster and class do not count
}

// Setting is the node-set request that results from merging flags, variables, class and cluster file. The
// zero value means that there are no node sets.
type Setting struct {
	Request
	Source    string // source of the request
	Optional  bool
	Tolerance Tolerance
	Priority  Priority
	Plus      Plus
	Delay     time.Duration

	Origins        map[string]string // source of each modifier that has an effect
	RequestedDelay time.Duration     // the requested delay if it was above the limit; else 0
}

// These are the sources of node-set requests, in descending order of precedence. They are indices of the list that
// byStrength returns.
const (
	flagLevel = iota
	variableLevel
	classLevel
	clusterLevel
)

func (l Levels) byStrength() []Level { return []Level{l.Flags, l.Variables, l.Class, l.Cluster} }

// parseRequests parses the requests of all levels. If a flag makes a request, variables are not parsed. It returns the
// request with the highest precedence and the index of its level. strongest is -1 if there is no request.
func (l Levels) parseRequests(kinds Kinds) (request Request, strongest int, err error) {
	strongest = -1
	for i, level := range slices.Backward(l.byStrength()) {
		if !level.hasRequest() || i == variableLevel && l.Flags.hasRequest() {
			continue // variables are not read if a flag makes a request
		}
		if i < classLevel && l.UsersDenied {
			return Request{}, 0, atSource(level.Source, refuseUserLevel(level.requestText()))
		}
		r, err := level.parseRequest(kinds)
		if err != nil {
			return Request{}, 0, err
		}
		if i < classLevel || !l.NodesListed {
			request, strongest = r, i
		}
	}
	return request, strongest, nil
}

// refuseUserLevel returns the error for a user's request if users may not request node sets.
func refuseUserLevel(text string) error {
	return &WordError{Token: text, Allowed: []string{"nothing, because the cluster file does not allow users to request node sets"}}
}
