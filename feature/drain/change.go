package drain

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"remshell/config"
	"remshell/job"
)

// A Setting is the value of --allow: KEY=VALUE texts separated by blanks. An empty field leaves the node's setting
// unchanged. The value "any" removes a restriction. UnmarshalText and apply check the values.
type Setting struct {
	Users, Groups string // names and numbers with commas between them
	MaxProcs      string
}

// A Slice is the value of --gang-slice: the length of the time slices in which gangs run, written as
// slice=TIME.
type Slice time.Duration

// Choices returns the beginning of a value for shell completion, with a placeholder for the time.
func (Slice) Choices() []string { return []string{"slice=TIME"} }

// UnmarshalText parses a value of the form slice=TIME.
func (s *Slice) UnmarshalText(text []byte) error {
	value, is := strings.CutPrefix(string(text), "slice=")
	if !is {
		return fmt.Errorf("%q must have the form slice=TIME", text)
	}
	length, err := config.ParseSlice(value)
	*s = Slice(length)
	return err
}

// A settingKey is a key of a Setting, with a placeholder for its value and the field of the Setting that it sets.
type settingKey struct {
	name, value string
	part        func(*Setting) *string
}

var settingKeys = []settingKey{
	{"users", "NAMES", func(s *Setting) *string { return &s.Users }},
	{"groups", "NAMES", func(s *Setting) *string { return &s.Groups }},
	{"maxproc", "N", func(s *Setting) *string { return &s.MaxProcs }},
}

// Choices returns the keys that a user may set, each with a placeholder for its value.
func (Setting) Choices() (words []string) {
	for _, k := range settingKeys {
		words = append(words, k.name+"="+k.value)
	}
	return words
}

// UnmarshalText parses KEY=VALUE texts. The names of users and groups are looked up later, on each host.
func (s *Setting) UnmarshalText(text []byte) error {
	*s = Setting{}
	words := strings.Fields(string(text))
	if len(words) == 0 {
		return errors.New("no setting is given; allowed: " + strings.Join(s.Choices(), ", "))
	}
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		i := slices.IndexFunc(settingKeys, func(k settingKey) bool { return strings.EqualFold(k.name, name) })
		if i < 0 {
			return fmt.Errorf("%q is not a setting; allowed: %s", word, strings.Join(s.Choices(), ", "))
		}
		part := settingKeys[i].part(s)
		switch {
		case *part != "":
			return fmt.Errorf("%s is given twice", settingKeys[i].name)
		case value == "":
			return fmt.Errorf("%s has no value; %s=any removes the restriction", settingKeys[i].name, settingKeys[i].name)
		}
		*part = value
	}
	_, err := s.apply(job.Allow{}, config.IDs{User: anyID, Group: anyID})
	return err
}

// anyID accepts every name. mpiexec uses it in place of the lookup of users and groups, because only the hosts know
// which names exist there.
func anyID(string) (int, error) { return 0, nil }

// apply returns a copy of old with the changes that s lists. It returns an error if a change is impossible, for example
// if ids does not find a name.
func (s Setting) apply(old job.Allow, ids config.IDs) (job.Allow, error) {
	a := old
	var errs [3]error
	a.Users, errs[0] = changeMembers(a.Users, s.Users, "user", ids.User)
	a.Groups, errs[1] = changeMembers(a.Groups, s.Groups, "group", ids.Group)
	switch n, err := strconv.Atoi(s.MaxProcs); {
	case s.MaxProcs == "":
	case strings.EqualFold(s.MaxProcs, "any"):
		a.MaxProcs = nil
	case err != nil || n < 0 || n > job.MaxAllowedMost:
		errs[2] = fmt.Errorf("maxproc=%s is neither a number from 0 to %d nor the word any", s.MaxProcs, job.MaxAllowedMost)
	default:
		a.MaxProcs = &n
	}
	return a, cmp.Or(errs[0], errs[1], errs[2])
}

// changeMembers returns the names of users or groups that text lists. It returns old if text is empty, and nil if text
// is "any". find looks up the ID of a name. changeMembers returns an error if find does not find a name, or if a name
// is invalid for a list of the given kind.
func changeMembers(old []string, text, kind string, find func(string) (int, error)) ([]string, error) {
	switch {
	case text == "":
		return old, nil
	case strings.EqualFold(text, "any"):
		return nil, nil
	}
	names := strings.Split(text, ",")
	if err := job.CheckMembers(kind, names); err != nil {
		return nil, err
	}
	for _, name := range names {
		if _, err := strconv.ParseUint(name, 10, 32); err == nil {
			continue
		}
		if _, err := find(name); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// apply returns the settings after the change. A node that is already drained keeps the time at which it was drained.
// It keeps the reason, too, unless the change has another reason. slice is the length of the node's time slices for
// gangs as long as root has not set another length with mpijob gang.
func (c *Change) apply(s job.NodeSettings, now time.Time, ids config.IDs, slice time.Duration) (job.NodeSettings, error) {
	switch {
	case c.Drain && s.IsDrained():
		s.Drain.Reason = cmp.Or(c.Reason, s.Drain.Reason)
	case c.Drain:
		s.Drain = job.Drain{Since: now.Truncate(time.Second), Reason: c.Reason}
	case c.Undrain:
		s.Drain = job.Drain{}
	case c.Slice > 0:
		before, _ := s.Slice.At(now, slice)
		s.Slice = job.SliceSetting{Length: c.Slice, Before: before, From: now.Add(sliceDelay).Truncate(time.Second)}
	}
	if err := job.CheckReason(s.Drain.Reason); err != nil {
		return s, err
	}
	if !s.Slice.IsValid() {
		return s, fmt.Errorf("a slice of %v is not allowed; give a time from %v to %v", s.Slice.Length, job.MinSlice, job.MaxSlice)
	}
	var err error
	s.Allow, err = c.Setting.apply(s.Allow, ids)
	return s, err
}

// sliceDelay is the time between a change to the slice length and the moment at which the new length takes effect. By
// then all helpers have read the change.
const sliceDelay = 6 * time.Second

// settingsText returns a text that says which settings apply to a node. In a message, the text follows the
// node's name.
func settingsText(s job.NodeSettings) string {
	lines := s.Lines()
	if lines == nil {
		return "is not drained, and mpijob allow does not restrict it"
	}
	return strings.Join(lines, "; it ")
}
