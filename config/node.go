package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"remshell/limit"
	"remshell/text"
)

// NodeFile is where a node's own administrator says what may run there. It is that node's
// root's, and beats all that users' files say (doc/node.toml explains it).
const NodeFile = "/etc/remshell/node.toml"

// Rules are what such a file says. Those of a nil pointer forbid nothing.
type Rules struct {
	File     string
	NoJobs   bool
	Users    []int // who may run ranks; nil: anybody, empty: root alone
	Groups   []int // the same for groups
	MaxProcs *int  // most ranks of all jobs at a time; nil: no limit

	Warnings []error // of what the file says and has no effect: an *Error for each
}

// A nodeFile is the format.
type nodeFile struct {
	RunJobs       any
	Users, User   any
	Groups, Group any
	MaxProc       any
	Processes     any
}

var nodeFileKeys = []string{"runJobs", "users", "user", "groups", "group", "maxproc", "processes"}

// LimitsFile is where a node's own administrator says what a job may use there at most, beside what
// it is told; it is root's alone, as NodeFile.
const LimitsFile = "/etc/remshell/limits.toml"

// LoadLimits reads that file: NAME = value, as in [limits] of a cluster file (RM-55). The error joins an
// *Error for each fault.
func LoadLimits(name, text string) (limit.Bounds, error) {
	text = strings.TrimPrefix(text, "\ufeff")
	l := scan(text)
	l.tables[""] = l.global
	r := &reader{name: name, lines: l}
	entries := make(map[string]any)
	if err := toml.NewDecoder(strings.NewReader(text)).Decode(&entries); err != nil {
		return nil, r.syntax(err)
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if _, is := entries[name].(map[string]any); is {
			r.fault(l.in(name, ""), "[%s]: this file has no tables; write NAME = VALUE without it", name)
			delete(entries, name)
		}
	}
	bounds := r.limits("", entries)
	for _, what := range bounds.Names() {
		if !what.Host() {
			r.fault(l.in("", string(what)), "%s: is of a job, of which this node knows a part; use hmem, hvmem or pcput", what)
		}
	}
	return bounds, errors.Join(r.errs...)
}

// LoadNode reads the file of a node. The error joins an *Error for each fault.
func LoadNode(name, text string, ids IDs) (*Rules, error) {
	text = strings.TrimPrefix(text, "\ufeff")
	l := scan(text)
	l.nodes = []map[string]int{l.global}
	r := &reader{name: name, ids: ids, lines: l, keys: nodeFileKeys}
	var f nodeFile
	if err := toml.NewDecoder(strings.NewReader(text)).DisallowUnknownFields().Decode(&f); err != nil {
		return nil, r.syntax(err)
	}
	p := r.policy(0, &nodeEntry{RunJobs: f.RunJobs, Users: f.Users, User: f.User, Groups: f.Groups, Group: f.Group,
		MaxProc: f.MaxProc, Processes: f.Processes})
	if len(r.errs) > 0 {
		return nil, errors.Join(r.errs...)
	}
	return &Rules{name, p.NoJobs, p.Users, p.Groups, p.MaxProcs, r.warned()}, nil
}

// Forbid says why a user may run nothing; empty: he may. Root is in all lists, as in the
// cluster file.
func (r *Rules) Forbid(uid int, groups []int) string {
	in := func(g int) bool { return slices.Contains(groups, g) }
	switch {
	case r == nil:
		return ""
	case r.NoJobs:
		return "runs no jobs (" + r.File + ")"
	case uid != 0 && r.Users != nil && !slices.Contains(r.Users, uid):
		return "is reserved for other users (" + r.because() + ")"
	case uid != 0 && r.Groups != nil && !slices.ContainsFunc(r.Groups, in):
		return "is reserved for other groups (" + r.because() + ")"
	}
	return ""
}

// because is the file by which somebody may run nothing, or what is wrong in it: that may be the name that he should have.
func (r *Rules) because() string {
	if len(r.Warnings) == 0 {
		return r.File
	}
	return r.Warnings[0].Error()
}

// Most is the smaller one of the file's limit of ranks and another one; negative: none.
func (r *Rules) Most(other int) int {
	if r == nil || r.MaxProcs == nil || other >= 0 && other < *r.MaxProcs {
		return other
	}
	return *r.MaxProcs
}

// Full says why so many ranks are too many whoever else is there; empty: they are not.
func (r *Rules) Full(ranks int) string {
	if r == nil || r.MaxProcs == nil || ranks <= *r.MaxProcs {
		return ""
	}
	return fmt.Sprintf("may run %s at a time (%s)", text.Count(*r.MaxProcs, "process"), r.File)
}
