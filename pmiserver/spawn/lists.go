package spawn

import "strconv"

// FieldNames are the field names of a PMI version's spawn request. Lists are numbered. Their lengths
// are in fields of their own; a missing length field means 0.
type FieldNames struct {
	Ranks                       string // number of processes
	ArgCount, Arg               string
	ArgFirst                    int
	InfoCount, InfoKey, InfoVal string
	PutCount, PutKey, PutVal    string
}

// A Segment holds the fields that describe one command. If a key occurs twice, the first value counts.
type Segment map[string]string

// AddField adds a field, unless its key exists already.
func (s Segment) AddField(key, value []byte) {
	if _, given := s[string(key)]; !given {
		s[string(key)] = string(value)
	}
}

// Number returns a field as a number. It is 0 if the field is missing or no number.
func (s Segment) Number(key string) int {
	n, err := strconv.Atoi(s[key])
	if err != nil {
		return 0
	}
	return n
}

// Command parses the command. ok is false if an item of a counted list is missing.
func (s Segment) Command(program string, form *FieldNames) (c Command, ok bool) {
	c.Argv, c.Count = []string{program}, s.Number(form.Ranks)
	for i := range s.Number(form.ArgCount) {
		arg, given := s[form.Arg+strconv.Itoa(form.ArgFirst+i)]
		if !given {
			return c, false
		}
		c.Argv = append(c.Argv, arg)
	}
	c.Info, ok = s.readPairs(form.InfoCount, form.InfoKey, form.InfoVal)
	return c, ok
}

// Preputs parses the preput pairs for the new group. ok is false if one is missing.
func (s Segment) Preputs(form *FieldNames) (list []Pair, ok bool) {
	return s.readPairs(form.PutCount, form.PutKey, form.PutVal)
}

// readPairs parses a list of pairs, numbered from 0. ok is false if one is missing.
func (s Segment) readPairs(count, keys, values string) (list []Pair, ok bool) {
	for i := range s.Number(count) {
		key, hasKey := s[keys+strconv.Itoa(i)]
		value, hasValue := s[values+strconv.Itoa(i)]
		if !hasKey || !hasValue {
			return list, false
		}
		list = append(list, Pair{key, value})
	}
	return list, true
}
