package spawn

import "strconv"

// A FieldNames says how a dialect writes a request. Lists are numbered, and their lengths stand in
// fields of their own; absent means 0.
type FieldNames struct {
	Ranks                       string // how many processes
	ArgCount, Arg               string
	ArgFirst                    int
	InfoCount, InfoKey, InfoVal string
	PutCount, PutKey, PutVal    string
}

// A Segment is the fields that describe one command. A key has the value it had
// first.
type Segment map[string]string

// AddField takes in a field.
func (s Segment) AddField(key, value []byte) {
	if _, given := s[string(key)]; !given {
		s[string(key)] = string(value)
	}
}

// Number returns a field that counts something; 0 if it is none.
func (s Segment) Number(key string) int {
	n, err := strconv.Atoi(s[key])
	if err != nil {
		return 0
	}
	return n
}

// Command reads what is to be started; it fails if something counted is missing.
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

// Preputs reads what the new group is to find; it fails if something counted is missing.
func (s Segment) Preputs(form *FieldNames) (list []Pair, ok bool) {
	return s.readPairs(form.PutCount, form.PutKey, form.PutVal)
}

// readPairs reads a list of pairs, numbered from 0; it fails if one is missing.
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
