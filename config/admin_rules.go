package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"remshell/job"
	"remshell/limits"
	"remshell/text"
)

// NodeFile is the file in which the administrator of a node restricts jobs on that node. The file must belong to
// root. It takes precedence over the files of users. doc/node.toml explains its keys.
const NodeFile = "/etc/remshell/node.toml"

// AdminRules contains restrictions on jobs. They come from NodeFile or StateFile, which are files on each node.
type AdminRules struct {
	File     string
	NoJobs   bool
	Users    []int // users who may run ranks; nil: all, empty: only root
	Groups   []int // groups that may run ranks; nil: all, empty: only root
	MaxProcs *int  // maximum number of ranks of all jobs at a time; nil: no limit
	Drain    job.Drain

	Warnings []error // an *Error for each setting without effect
}

// A nodeFile is the content of NodeFile (node.toml) as decoded from TOML.
type nodeFile struct {
	RunJobs       any
	Users, User   any
	Groups, Group any
	MaxProc       any
	Processes     any
}

var nodeFileKeys = []string{"runJobs", "users", "user", "groups", "group", "maxproc", "processes"}

// LimitsFile is the file in which the administrator of a node limits the resources of a job on that node. These
// limits apply in addition to the job's own limits. Like NodeFile, the file must belong to root.
const LimitsFile = "/etc/remshell/limits.toml"

// LoadLimits parses the contents of a LimitsFile. The lines have the form NAME = value, as in [limits] of a cluster
// file (rule RM-55). The returned error joins one *Error for each mistake.
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
			r.addFault(l.lineInTable(name, ""), "[%s]: this file has no tables; write NAME = VALUE without a table", name)
			delete(entries, name)
		}
	}
	bounds := r.readLimits("", entries)
	for _, limit := range bounds.Names() {
		if !limit.IsHostLimit() {
			r.addFault(l.lineInTable("", string(limit)), "%s: this limit applies to a whole job, so a node cannot check it; use hmem, hvmem or pcput", limit)
		}
	}
	return bounds, errors.Join(r.errs...)
}

// LoadAdminRules parses the contents of a NodeFile. The returned error joins one *Error for each mistake.
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
	return &AdminRules{File: name, NoJobs: p.NoJobs, Users: p.Users, Groups: p.Groups, MaxProcs: p.MaxProcs, Warnings: r.sortedWarnings()}, nil
}

// A RuleSet holds the restrictions of all files of a node: first the NodeFile, and then the StateFile. A job must
// satisfy all of them.
type RuleSet []*AdminRules

// ForbidReason returns why a user must not run ranks on this node, or "" if the user may. Root is treated as a member
// of every list, as in the cluster file. drained is true if the reason is that root has drained the node.
func (s RuleSet) ForbidReason(uid int, groups []int) (reason string, drained bool) {
	for _, r := range s {
		if reason = r.forbidReason(uid, groups); reason != "" {
			return reason, !r.NoJobs && !r.Drain.Since.IsZero()
		}
	}
	return "", false
}

func (r *AdminRules) forbidReason(uid int, groups []int) string {
	in := func(g int) bool { return slices.Contains(groups, g) }
	switch {
	case r.NoJobs:
		return "the host does not allow jobs (" + r.File + ")"
	case !r.Drain.Since.IsZero():
		return r.Drain.Text()
	case uid != 0 && r.Users != nil && !slices.Contains(r.Users, uid):
		return "the host is reserved for other users (" + r.forbidSource() + ")"
	case uid != 0 && r.Groups != nil && !slices.ContainsFunc(r.Groups, in):
		return "the host is reserved for other groups (" + r.forbidSource() + ")"
	}
	return ""
}

// forbidSource returns the name of the file with the restriction. If the file has warnings, it returns the first
// warning instead. Such a warning says that a name in the file is unknown, which may explain why this user is not in
// the list.
func (r *AdminRules) forbidSource() string {
	if len(r.Warnings) == 0 {
		return r.File
	}
	return r.Warnings[0].Error()
}

// SmallerMaxProcs returns limit, or the lowest maxproc of the files if that is smaller. A negative number means that
// there is no limit.
func (s RuleSet) SmallerMaxProcs(limit int) int {
	for _, r := range s {
		if r.MaxProcs != nil && (limit < 0 || *r.MaxProcs < limit) {
			limit = *r.MaxProcs
		}
	}
	return limit
}

// MaxProcsReason returns an explanation if a file allows fewer ranks on this node than the job needs here. Such a job
// cannot start even if no other job is running. Otherwise MaxProcsReason returns "".
func (s RuleSet) MaxProcsReason(ranks int) string {
	for _, r := range s {
		if r.MaxProcs != nil && ranks > *r.MaxProcs {
			return fmt.Sprintf("the host may run at most %s at a time (%s)", text.Count(*r.MaxProcs, "process"), r.File)
		}
	}
	return ""
}

// Warnings returns the warnings about all files.
func (s RuleSet) Warnings() (all []error) {
	for _, r := range s {
		all = append(all, r.Warnings...)
	}
	return all
}
