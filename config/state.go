package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"remshell/job"
)

/*
This file has the form of a StateFile. Each setting is a table, and a row of stateTables.

	# comment
	[drain]
	since = 2026-11-27T11:40:00Z
	reason = "disk fault"

	[allow]
	users = ["alice", "1001"]
	groups = ["chem"]
	maxproc = 8

	[gang]
	slice = "30s"
	from = 2026-11-27T11:40:05Z
	before = "10s"

A further setting is a field of job.NodeSettings, a row here, and a part of the message that lists settings (package
wire).
*/

// StateFile is the file with the run-time settings of a node. Like NodeFile, it must belong to root. Only mpijob
// drain, undrain, allow and gang write this file.
const StateFile = "/etc/remshell/state.toml"

// MaxStateBytes is the maximum size of a StateFile in bytes.
const MaxStateBytes = 64 << 10

// A stateTable describes one table of a StateFile, such as [drain], and the setting that this table contains. read
// stores the content of t in s, and adds errors to the reader of t. write returns the lines below the header of the
// table, or "" if s does not contain the setting.
type stateTable struct {
	name  string
	read  func(t *keyTable, s *job.NodeSettings)
	write func(s job.NodeSettings) string
}

// stateTables lists all settings of a StateFile, in the order in which they are written.
var stateTables = []stateTable{
	{"drain", readDrain, writeDrain},
	{"allow", readAllow, writeAllow},
	{"gang", readSlice, writeSlice},
}

// stateHead is the comment at the beginning of each StateFile.
const stateHead = `# Settings of this node at run time. mpijob drain, undrain, allow and gang write this file.
# mpiexec obeys node.toml, too: this file cannot allow what node.toml forbids.
`

// LoadState parses the contents of a StateFile. The returned error joins one *Error for each mistake.
func LoadState(name, text string) (s job.NodeSettings, err error) {
	r := &reader{name: name, lines: scanKeyLines(text), text: text}
	entries := make(map[string]any)
	if err := toml.NewDecoder(strings.NewReader(text)).Decode(&entries); err != nil {
		return job.NodeSettings{}, r.syntaxError(err)
	}
	for _, table := range stateTables {
		if value, is := entries[table.name]; is {
			if t := r.openTable(table.name, value, "["+table.name+"]"); t != nil {
				table.read(t, &s)
			}
			delete(entries, table.name)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		r.addFault(r.lineOf(key, ""), "unknown key %q", key)
	}
	if len(r.errs) > 0 {
		slices.SortStableFunc(r.errs, byLine)
		return job.NodeSettings{}, errors.Join(r.errs...)
	}
	return s, nil
}

// FormatState returns the contents of a StateFile with the settings s. It returns "" if no setting is set. LoadState
// converts the contents back to the same settings.
func FormatState(s job.NodeSettings) string {
	var b strings.Builder
	for _, table := range stateTables {
		if lines := table.write(s); lines != "" {
			fmt.Fprintf(&b, "\n[%s]\n%s", table.name, lines)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return stateHead + b.String()
}

func readDrain(t *keyTable, s *job.NodeSettings) {
	s.Drain.Since = t.takeTime("since")
	s.Drain.Reason = t.takeText("reason")
	if err := job.CheckReason(s.Drain.Reason); err != nil {
		t.addFault("reason", "%v", err)
	}
	t.reportUnknownKeys("since", "reason")
}

// takeTime removes a key from the table and returns its value, a time in whole seconds. If the key is missing or the
// value is not such a time, takeTime adds an error.
func (t *keyTable) takeTime(key string) time.Time {
	switch value := t.takeValue(key).(type) {
	case nil:
		t.addFault(key, "is missing")
	case time.Time:
		if value.Year() < 1970 || value.Year() > 9998 {
			t.addFault(key, "the year %d is not between 1970 and 9998", value.Year())
		}
		return value.UTC().Truncate(time.Second)
	default:
		t.addFault(key, "%s is not a time such as 2026-11-27T11:40:00Z", valueText(value))
	}
	return time.Time{}
}

func readSlice(t *keyTable, s *job.NodeSettings) {
	length := func(key string) time.Duration {
		length, err := ParseSlice(t.takeText(key))
		if err != nil {
			t.addFault(key, "%v", err)
		}
		return length
	}
	s.Slice = job.SliceSetting{Length: length("slice"), From: t.takeTime("from"), Before: length("before")}
	t.reportUnknownKeys("slice", "from", "before")
}

func writeSlice(s job.NodeSettings) string {
	if s.Slice.Length == 0 {
		return ""
	}
	return fmt.Sprintf("slice = %q\nfrom = %s\nbefore = %q\n", s.Slice.Length, s.Slice.From.UTC().Format(time.RFC3339), s.Slice.Before)
}

func writeDrain(s job.NodeSettings) string {
	if !s.IsDrained() {
		return ""
	}
	lines := "since = " + s.Drain.Since.UTC().Format(time.RFC3339) + "\n"
	if s.Drain.Reason != "" {
		lines += "reason = " + quoteTOML(s.Drain.Reason) + "\n"
	}
	return lines
}

func readAllow(t *keyTable, s *job.NodeSettings) {
	for _, list := range allowLists(&s.Allow) {
		*list.names = t.takeWords(list.key, singleton)
		if err := job.CheckMembers(list.member, *list.names); err != nil {
			t.addFault(list.key, "%v", err)
		}
	}
	switch n := t.takeValue("maxproc").(type) {
	case nil:
	case int64:
		if most := int(n); n >= 0 && n <= job.MaxAllowedMost {
			s.Allow.MaxProcs = &most
			break
		}
		t.addFault("maxproc", "%d is not a number from 0 to %d", n, job.MaxAllowedMost)
	default:
		t.addFault("maxproc", "%s is not a number", valueText(n))
	}
	t.reportUnknownKeys("users", "groups", "maxproc")
}

func writeAllow(s job.NodeSettings) (lines string) {
	for _, list := range allowLists(&s.Allow) {
		if *list.names == nil {
			continue
		}
		var quoted []string
		for _, name := range *list.names {
			quoted = append(quoted, quoteTOML(name))
		}
		lines += list.key + " = [" + strings.Join(quoted, ", ") + "]\n"
	}
	if most := s.Allow.MaxProcs; most != nil {
		lines += "maxproc = " + strconv.Itoa(*most) + "\n"
	}
	return lines
}

// An allowList is one of the lists in a job.Allow, together with the key that sets it in the state file.
type allowList struct {
	key, member string
	names       *[]string
}

func allowLists(a *job.Allow) []allowList {
	return []allowList{{"users", "user", &a.Users}, {"groups", "group", &a.Groups}}
}

// quoteTOML returns a line of printable text as a TOML basic string.
func quoteTOML(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// StateRules returns the restrictions that the run-time settings of a node impose. name is the file that contains
// these settings.
func StateRules(name string, s job.NodeSettings, ids IDs) *AdminRules {
	r := &reader{name: name, ids: ids}
	members := func(key string, names []string, find func(string) (int, error)) []int {
		if names == nil {
			return nil
		}
		list := make([]any, len(names))
		for i, name := range names {
			list[i] = name
		}
		return r.readMembers(0, key, list, find)
	}
	rules := &AdminRules{File: name, Drain: s.Drain, MaxProcs: s.Allow.MaxProcs,
		Users: members("users", s.Allow.Users, ids.User), Groups: members("groups", s.Allow.Groups, ids.Group)}
	rules.Warnings = r.sortedWarnings()
	return rules
}
