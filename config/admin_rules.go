package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"remshell/limits"
	"remshell/text"
)

// NodeFile is where a node's own administrator says what may run there. It is that node's
// root's, and beats all that users' files say (doc/node.toml explains it).
const NodeFile = "/etc/remshell/node.toml"

// AdminRules are what such a file says. Those of a nil pointer forbid nothing.
type AdminRules struct {
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
func LoadLimits(name, text string) (limits.Map, error) {
	text = strings.TrimPrefix(text, "\ufeff")
	l := scanKeyLines(text)
	l.tables[""] = l.global
	r := &reader{name: name, lines: l}
	entries := make(map[string]any)
	if err := toml.NewDecoder(strings.NewReader(text)).Decode(&entries); err != nil {
		return nil, r.syntaxError(err)
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if _, is := entries[name].(map[string]any); is {
			r.addFault(l.lineInTable(name, ""), "[%s]: this file has no tables; write NAME = VALUE without it", name)
			delete(entries, name)
		}
	}
	bounds := r.readLimits("", entries)
	for _, what := range bounds.Names() {
		if !what.IsHostLimit() {
			r.addFault(l.lineInTable("", string(what)), "%s: is of a job, of which this node knows a part; use hmem, hvmem or pcput", what)
		}
	}
	return bounds, errors.Join(r.errs...)
}

// LoadAdminRules reads the file of a node. The error joins an *Error for each fault.
func LoadAdminRules(name, text string, ids IDs) (*AdminRules, error) {
	text = strings.TrimPrefix(text, "\ufeff")
	l := scanKeyLines(text)
	l.nodes = []map[string]int{l.global}
	r := &reader{name: name, ids: ids, lines: l, keys: nodeFileKeys}
	var f nodeFile
	if err := toml.NewDecoder(strings.NewReader(text)).DisallowUnknownFields().Decode(&f); err != nil {
		return nil, r.syntaxError(err)
	}
	p := r.readPolicy(0, &nodeEntry{RunJobs: f.RunJobs, Users: f.Users, User: f.User, Groups: f.Groups, Group: f.Group,
		MaxProc: f.MaxProc, Processes: f.Processes})
	if len(r.errs) > 0 {
		return nil, errors.Join(r.errs...)
	}
	return &AdminRules{name, p.NoJobs, p.Users, p.Groups, p.MaxProcs, r.sortedWarnings()}, nil
}

// ForbidReason says why a user may run nothing; empty: he may. Root is in all lists, as in the
// cluster file.
func (r *AdminRules) ForbidReason(uid int, groups []int) string {
	in := func(g int) bool { return slices.Contains(groups, g) }
	switch {
	case r == nil:
		return ""
	case r.NoJobs:
		return "runs no jobs (" + r.File + ")"
	case uid != 0 && r.Users != nil && !slices.Contains(r.Users, uid):
		return "is reserved for other users (" + r.forbidSource() + ")"
	case uid != 0 && r.Groups != nil && !slices.ContainsFunc(r.Groups, in):
		return "is reserved for other groups (" + r.forbidSource() + ")"
	}
	return ""
}

// forbidSource is the file by which somebody may run nothing, or what is wrong in it: that may be the name that he should have.
func (r *AdminRules) forbidSource() string {
	if len(r.Warnings) == 0 {
		return r.File
	}
	return r.Warnings[0].Error()
}

// SmallerMaxProcs is the smaller one of the file's limit of ranks and another one; negative: none.
func (r *AdminRules) SmallerMaxProcs(other int) int {
	if r == nil || r.MaxProcs == nil || other >= 0 && other < *r.MaxProcs {
		return other
	}
	return *r.MaxProcs
}

// MaxProcsReason says why so many ranks are too many whoever else is there; empty: they are not.
func (r *AdminRules) MaxProcsReason(ranks int) string {
	if r == nil || r.MaxProcs == nil || ranks <= *r.MaxProcs {
		return ""
	}
	return fmt.Sprintf("may run %s at a time (%s)", text.Count(*r.MaxProcs, "process"), r.File)
}
