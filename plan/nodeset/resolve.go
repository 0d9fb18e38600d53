package nodeset

// Resolve judges all that is said, and takes what counts: the request whole from the strongest level
// that has one, each modifier from the strongest that says it. The error is a *Refusal.
func (l Levels) Resolve(kinds Kinds) (Setting, error) {
	made, strongest, err := l.requests(kinds)
	if err != nil {
		return Setting{}, err
	}
	s := Setting{Request: made, Origins: make(map[string]string)}
	if made.Policy != "" {
		s.From = l.byStrength()[strongest].Source
	}
	optional, err := voices(l, KeyOptional, parseOptional)
	if err != nil {
		return Setting{}, err
	}
	tolerance, err := voices(l, KeyTolerance, parseTolerance)
	if err != nil {
		return Setting{}, err
	}
	priority, err := voices(l, KeyPriority, parsePriority)
	if err != nil {
		return Setting{}, err
	}
	plus, err := voices(l, KeyPlus, parsePlus)
	if err != nil {
		return Setting{}, err
	}
	delay, err := voices(l, KeyDelay, parseDelay)
	if err != nil {
		return Setting{}, err
	}
	if s.Optional = strongest >= classLevel; !s.Optional { // who asks for sets does not expect that the site drops them
		for len(optional) > 0 && optional[len(optional)-1].level >= classLevel {
			optional = optional[:len(optional)-1]
		}
	}
	settle(&s, &s.Optional, optional, KeyOptional)
	settle(&s, &s.Plus, plus, KeyPlus)
	settle(&s, &s.Delay, delay, KeyDelay)
	if len(delay) > 0 && delay[0].level < classLevel && s.Delay > l.MaxDelay {
		s.Cut, s.Delay = s.Delay, l.MaxDelay
	}
	return s, s.suit(tolerance, priority, strongest)
}

// suit settles the modifiers that not every attribute can have. Where class or cluster say one
// beside a request of others that it does not suit, it is left out.
func (s *Setting) suit(tolerance []voice[Tolerance], priority []voice[Priority], strongest int) error {
	tolerance, err := suitable(tolerance, strongest, s.misfitsTolerance)
	if err != nil {
		return err
	}
	settle(s, &s.Tolerance, tolerance, KeyTolerance)
	if priority, err = suitable(priority, strongest, s.misfitsPriority); err != nil {
		return err
	}
	if s.Priority = FirstFit; s.Tolerance > 0 {
		s.Priority = MinLoss
	}
	settle(s, &s.Priority, priority, KeyPriority)
	return nil
}

// misfitsTolerance tells what may be said in the place of a tolerance; empty: it may be.
func (s *Setting) misfitsTolerance(t Tolerance) string {
	if s.Policy == "" || s.Attribute == ProcSpeed || t == 0 {
		return ""
	}
	return "0: a tolerance is for " + ProcSpeed
}

// misfitsPriority tells with what a priority may be said; empty: it may be with this.
func (s *Setting) misfitsPriority(p Priority) string {
	speeds := s.Policy == "" || s.Attribute == ProcSpeed
	switch {
	case p == BestResource && !speeds:
		return "with " + ProcSpeed
	case p == MinLoss && s.Policy != "" && s.Kind.Numeric && !(speeds && s.Tolerance > 0):
		return "with " + ProcSpeed + " and a tolerance, or labels"
	}
	return ""
}

// A voice is what one level says of a modifier.
type voice[T any] struct {
	value        T
	level        int
	source, text string
}

// voices reads what is said of a modifier, strongest first. All of it is judged, but what a flag
// hides of the variables.
func voices[T any](l Levels, key string, parse func(string) (T, error)) ([]voice[T], error) {
	var all []voice[T]
	for i, level := range l.byStrength() {
		text, said := level.Said[key]
		if !said || i == variableLevel && len(all) > 0 {
			continue
		}
		source := level.key(key)
		if i < classLevel && l.Closed {
			return nil, at(source, closed(text))
		}
		value, err := parse(trim(text))
		if err != nil {
			return nil, at(source, err)
		}
		all = append(all, voice[T]{value, i, source, text})
	}
	return all, nil
}

// suitable are the voices that suit the request. misfits tells what may be said instead.
func suitable[T any](all []voice[T], strongest int, misfits func(T) string) (fit []voice[T], err error) {
	for _, v := range all {
		allowed := misfits(v.value)
		if allowed == "" {
			fit = append(fit, v)
		} else if v.level < classLevel || v.level == strongest {
			return nil, at(v.source, &WordError{Token: v.text, Allowed: []string{allowed}, Reason: "does not suit the attribute"})
		}
	}
	return fit, nil
}

// settle takes what the strongest says, if somebody does.
func settle[T any](s *Setting, into *T, all []voice[T], key string) {
	if len(all) > 0 {
		*into, s.Origins[key] = all[0].value, all[0].source
	}
}
