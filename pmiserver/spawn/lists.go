package spawn

import "strconv"

// FieldNames are the names of the fields in a spawn request, which differ between PMI versions. Items of
// lists are numbered. The length of a list is in a field of its own; if this field is missing, the length is
// 0.
type FieldNames struct {
	Ranks                       string // number of processes
	ArgCount, Arg               string
	ArgFirst                    int
	InfoCount, InfoKey, InfoVal string
	PutCount, PutKey, PutVal    string
}

// A Segment contains the fields of a spawn request that describe one command. If a key occurs twice, the
// Segment contains only the first value.
type Segment map[string]string

// AddField adds a field, unless there is already a field with the same key.
func (s Segment) AddField(key, value []byte) {
	if _, given := s[string(key)]; !given {
		s[string(key)] = string(value)
	}
}

// Number returns the value of a field as a number. It returns 0 if the field is missing or is not a number.
func (s Segment) Number(key string) int {
	n, err := strconv.Atoi(s[key])
	if err != nil {
		return 0
	}
	return n
}

// Command returns the command that the fields describe. program is the first argument of the command. ok is false if an
// item of a list is missing.
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

// Preputs returns the pairs that the key-value space of the new group contains from the start. ok is false if a
// pair is incomplete.
func (s Segment) Preputs(form *FieldNames) (list []Pair, ok bool) {
	return s.readPairs(form.PutCount, form.PutKey, form.PutVal)
}

// readPairs parses a list of pairs that are numbered from 0. ok is false if a pair is missing.
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
