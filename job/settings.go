package job

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"remshell/text"
)

// NodeSettings are the run-time settings of a node. Root on the node changes them with mpijob drain, undrain, allow and
// gang. They restrict jobs in addition to the node's own file, node.toml. The zero value restricts nothing.
// NodeSettings has one field for each setting. Package config reads and writes the file that contains them.
type NodeSettings struct {
	Drain Drain
	Allow Allow
	Slice SliceSetting
}

// A Drain prevents new ranks from starting on a node. Ranks that already run on the node continue. The zero value
// does not prevent any ranks from starting.
type Drain struct {
	Since  time.Time // in whole seconds; zero: the node is not drained
	Reason string    // as root has written it; empty: root has given none
}

// An Allow restricts which ranks may start on a node. The zero value allows all ranks.
type Allow struct {
	Users    []string // names and numbers; nil: all users
	Groups   []string // names and numbers; nil: all groups
	MaxProcs *int     // most ranks of all jobs at a time; nil: no limit
}

// A SliceSetting is the length of the time slices in which gangs (jobs that share CPUs) run on a node. Root sets it at
// run time (mpijob gang). The zero value means that root has set no length. The length in the cluster file on the node
// then applies.
type SliceSetting struct {
	Length time.Duration // 0: not set
	From   time.Time     // from when on it holds, in whole seconds
	Before time.Duration // the length until then
}

// At returns the length of slices at the time now. If a change of the length is scheduled, until is the time of the
// change, otherwise it is zero. other is the length that is used if root has set none.
func (s SliceSetting) At(now time.Time, other time.Duration) (length time.Duration, until time.Time) {
	switch {
	case s.Length == 0:
		return other, time.Time{}
	case now.Before(s.From):
		return s.Before, s.From
	}
	return s.Length, time.Time{}
}

// IsValid reports whether the lengths of slices are within their limits. It returns true if nothing is set.
func (s SliceSetting) IsValid() bool {
	allowed := func(d time.Duration) bool { return d >= MinSlice && d <= MaxSlice }
	return s == SliceSetting{} || allowed(s.Length) && allowed(s.Before)
}

// Text describes the length. The result is meant to follow the node's name in a message. It is empty if no length is
// set.
func (s SliceSetting) Text() string {
	if s.Length == 0 {
		return ""
	}
	return fmt.Sprintf("runs --gang jobs in turns of %v from %s onwards (set by mpijob gang)", s.Length, s.From.Format("2006-01-02 15:04:05"))
}

// These are the maximum sizes of texts and lists in NodeSettings.
const (
	MaxReason      = 200     // bytes of Drain.Reason
	MaxMembers     = 64      // names of users, and names of groups
	MaxMemberName  = 64      // bytes of a name
	MaxAllowedMost = 1000000 // of Allow.MaxProcs
)

// IsDrained reports whether the node starts no new ranks.
func (s NodeSettings) IsDrained() bool { return !s.Drain.Since.IsZero() }

// Text returns the reason why a drained node starts no ranks. It is meant to follow the node's name in a message.
func (d Drain) Text() string {
	words := "was drained by root on " + d.Since.Format("2006-01-02 15:04")
	if d.Reason != "" {
		words += ": " + d.Reason
	}
	return words
}

// Text returns a phrase that says which ranks a node may start. It is meant to follow the node's name in a message. It
// is "" if the node may start all ranks.
func (a Allow) Text() string {
	var who []string
	if a.Users != nil {
		who = append(who, "users "+strings.Join(a.Users, ", "))
	}
	if a.Groups != nil {
		who = append(who, "groups "+strings.Join(a.Groups, ", "))
	}
	switch names := strings.Join(who, " in "); {
	case who == nil && a.MaxProcs == nil:
		return ""
	case a.MaxProcs == nil:
		return fmt.Sprintf("runs only jobs of %s (set by mpijob allow)", names)
	case who == nil:
		return fmt.Sprintf("runs at most %s at a time (set by mpijob allow)", text.Count(*a.MaxProcs, "process"))
	default:
		return fmt.Sprintf("runs only jobs of %s, and at most %s at a time (set by mpijob allow)", names, text.Count(*a.MaxProcs, "process"))
	}
}

// Lines returns a phrase for each setting that is in effect. Each phrase is meant to follow the node's name in a
// message.
func (s NodeSettings) Lines() (lines []string) {
	if s.IsDrained() {
		lines = append(lines, s.Drain.Text())
	}
	for _, line := range []string{s.Allow.Text(), s.Slice.Text()} {
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// CheckReason returns an error unless reason is a valid reason for a drain. A valid reason is one line of at most
// MaxReason bytes.
func CheckReason(reason string) error {
	switch {
	case len(reason) > MaxReason:
		return fmt.Errorf("the reason has %d bytes, but at most %d are allowed", len(reason), MaxReason)
	case !isLine(reason):
		return fmt.Errorf("the reason %q must be one line of text", reason)
	}
	return nil
}

// CheckMembers returns an error unless names is a valid value for the Users or Groups field of an Allow. kind says what
// they are, such as "user".
func CheckMembers(kind string, names []string) error {
	switch {
	case names != nil && len(names) == 0:
		return fmt.Errorf("the list of %ss is empty", kind)
	case len(names) > MaxMembers:
		return fmt.Errorf("the list has %d %ss, but at most %d are allowed; use a group", len(names), kind, MaxMembers)
	}
	for _, name := range names {
		if name == "" || len(name) > MaxMemberName || !isLine(name) || strings.ContainsAny(name, " ,=") {
			return fmt.Errorf("%q is not a valid %s name", name, kind)
		}
	}
	return nil
}

// isLine reports whether s is valid UTF-8 and contains only printable characters.
func isLine(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) })
}
