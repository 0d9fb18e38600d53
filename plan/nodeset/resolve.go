package nodeset

// Resolve checks and merges the node-set requests of all levels. The request itself, and each modifier of the
// request, comes from the level with the highest precedence that has a value. The error is a *SourceError.
func (l Levels) Resolve(kinds Kinds) (Setting, error) {
	request, strongest, err := l.parseRequests(kinds)
	if err != nil {
		return Setting{}, err
	}
	s := Setting{Request: request, Origins: make(map[string]string)}
	if request.Policy != "" {
		s.Source = l.byStrength()[strongest].Source
	}
	optional, err := levelValues(l, KeyOptional, parseOptional)
	if err != nil {
		return Setting{}, err
	}
	tolerance, err := levelValues(l, KeyTolerance, parseTolerance)
	if err != nil {
		return Setting{}, err
	}
	priority, err := levelValues(l, KeyPriority, parsePriority)
	if err != nil {
		return Setting{}, err
	}
	plus, err := levelValues(l, KeyPlus, parsePlus)
	if err != nil {
		return Setting{}, err
	}
	delay, err := levelValues(l, KeyDelay, parseDelay)
	if err != nil {
		return Setting{}, err
	}
	if s.Optional = strongest >= classLevel; !s.Optional { // if users request sets, a site default must not make them optional
		for len(optional) > 0 && optional[len(optional)-1].level >= classLevel {
			optional = optional[:len(optional)-1]
		}
	}
	setStrongest(&s, &s.Optional, optional, KeyOptional)
	setStrongest(&s, &s.Plus, plus, KeyPlus)
	setStrongest(&s, &s.Delay, delay, KeyDelay)
	if len(delay) > 0 && delay[0].level < classLevel && s.Delay > l.MaxDelay {
		s.RequestedDelay, s.Delay = s.Delay, l.MaxDelay
	}
	return s, s.setModifiers(tolerance, priority, strongest)
}

// setModifiers sets the tolerance and the priority of the node-set request. Not every tolerance or priority is possible
// with every attribute. An impossible value from the class or cluster file is ignored if the request comes from another
// level. Any other impossible value is an error.
func (s *Setting) setModifiers(tolerance []levelValue[Tolerance], priority []levelValue[Priority], strongest int) error {
	tolerance, err := suitableValues(tolerance, strongest, s.toleranceMisfit)
	if err != nil {
		return err
	}
	setStrongest(s, &s.Tolerance, tolerance, KeyTolerance)
	if priority, err = suitableValues(priority, strongest, s.priorityMisfit); err != nil {
		return err
	}
	if s.Priority = FirstFit; s.Tolerance > 0 {
		s.Priority = MinLoss
	}
	setStrongest(s, &s.Priority, priority, KeyPriority)
	return nil
}

// possibleOnly is the beginning of the reason why a value is refused.
const possibleOnly = "is possible only with the attribute "

// toleranceMisfit returns "" if the tolerance t is possible for the request. Otherwise it returns a phrase that says
// with which attribute it is possible.
func (s *Setting) toleranceMisfit(t Tolerance) string {
	if s.Policy == "" || s.Attribute == ProcSpeed || t == 0 {
		return ""
	}
	return possibleOnly + ProcSpeed
}

// priorityMisfit returns "" if the priority p is possible for the request. Otherwise it returns a phrase that says for
// which attributes p is possible.
func (s *Setting) priorityMisfit(p Priority) string {
	speeds := s.Policy == "" || s.Attribute == ProcSpeed
	switch {
	case p == BestResource && !speeds:
		return possibleOnly + ProcSpeed
	case p == MinLoss && s.Policy != "" && s.Kind.Numeric && !(speeds && s.Tolerance > 0):
		return possibleOnly + ProcSpeed + " together with a tolerance, or with attributes that are labels"
	}
	return ""
}

// A levelValue is the value of a modifier of a node-set request, together with the level at which it was set.
type levelValue[T any] struct {
	value        T
	level        int
	source, text string
}

// levelValues parses the values that all sources have for one modifier, and returns them in descending order of
// precedence. If a flag gives a value, the values of variables are ignored, even invalid ones. Apart from that, an
// invalid value is an error even if another value takes precedence.
func levelValues[T any](l Levels, key string, parse func(string) (T, error)) ([]levelValue[T], error) {
	var all []levelValue[T]
	for i, level := range l.byStrength() {
		text, given := level.Modifiers[key]
		if !given || i == variableLevel && len(all) > 0 {
			continue
		}
		source := level.modifierSource(key)
		if i < classLevel && l.UsersDenied {
			return nil, atSource(source, refuseUserLevel(text))
		}
		value, err := parse(trim(text))
		if err != nil {
			return nil, atSource(source, err)
		}
		all = append(all, levelValue[T]{value, i, source, text})
	}
	return all, nil
}

// suitableValues returns the values of a modifier that are possible for the request. mismatch returns "" for a possible
// value, and otherwise the reason. An impossible value is an error if a user has given it, or if it comes from the same
// level as the request.
func suitableValues[T any](all []levelValue[T], strongest int, mismatch func(T) string) (suitable []levelValue[T], err error) {
	for _, v := range all {
		reason := mismatch(v.value)
		if reason == "" {
			suitable = append(suitable, v)
		} else if v.level < classLevel || v.level == strongest {
			return nil, atSource(v.source, &WordError{Token: v.text, Reason: reason})
		}
	}
	return suitable, nil
}

// setStrongest stores the value of the level with the highest precedence in *target, and records the source of this
// value. If no level has a value, it does nothing.
func setStrongest[T any](s *Setting, target *T, all []levelValue[T], key string) {
	if len(all) > 0 {
		*target, s.Origins[key] = all[0].value, all[0].source
	}
}
