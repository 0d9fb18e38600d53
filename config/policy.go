package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"remshell/job"
)

// readPolicy reads those settings of the [[node]] entry with index i that placement.md 1.8 describes.
func (r *reader) readPolicy(i int, e *nodeEntry) job.NodePolicy {
	p := job.NodePolicy{
		NoJobs: !r.readYesNo(i, "runJobs", e.RunJobs, true), Features: append(e.Features, e.HWType...),
		NoExclusive: !r.readYesNo(i, "exclusive", e.Exclusive, true),
		UserCPUMap:  r.readYesNo(i, "allowUserMap", e.AllowUserMap, false),
		NoPin:       !r.readYesNo(i, "pinProcs", e.PinProcs, true), NoMemBind: !r.readYesNo(i, "bindMem", e.BindMem, true),
		CountThreads: r.readYesNo(i, "countThreads", e.CountThreads, false),
		CPUMap:       e.CPUMap,
	}
	if text, _ := e.Overbook.(string); !strings.EqualFold(text, "auto") {
		p.NoOverbook = !r.readYesNo(i, "overbook", e.Overbook, true)
	}
	key, value := r.oneOfTwoKeys(i, "users", e.Users, "user", e.User)
	p.Users = r.readMembers(r.lines.lineInNode(i, key), key, value, r.ids.User)
	key, value = r.oneOfTwoKeys(i, "groups", e.Groups, "group", e.Group)
	p.Groups = r.readMembers(r.lines.lineInNode(i, key), key, value, r.ids.Group)
	key, value = r.oneOfTwoKeys(i, "maxproc", e.MaxProc, "processes", e.Processes)
	p.MaxProcs = r.readLimit(i, key, value)
	for _, number := range e.CPUMap {
		if number < 0 || number > 65535 {
			r.addFault(r.lines.lineInNode(i, "cpumap"), "CPUmap: there is no core %d", number)
		}
	}
	return p
}

// oneOfTwoKeys returns the key and value of a setting that has two names, a and b. va and vb are their values in the
// [[node]] entry with index i, or nil. If the entry contains both, oneOfTwoKeys adds an error.
func (r *reader) oneOfTwoKeys(i int, a string, va any, b string, vb any) (string, any) {
	if va != nil && vb != nil {
		r.addFault(r.lines.lineInNode(i, b), "%s and %s mean the same; use only one of them", a, b)
	}
	if vb != nil {
		return b, vb
	}
	return a, va
}

// readYesNo reads a value that is yes, no, true or false. It returns fallback if value is nil or invalid.
func (r *reader) readYesNo(i int, key string, value any, fallback bool) bool {
	if v, ok := parseYesNo(value, fallback); ok {
		return v
	}
	allowed := "yes or no"
	if key == "overbook" {
		allowed = "yes, no or auto"
	}
	r.addFault(r.lines.lineInNode(i, key), "%s: %s is not %s", key, valueText(value), allowed)
	return fallback
}

// valueText returns a value as it is written in the file. For a list or a table, it returns the kind of the value.
func valueText(value any) string {
	switch value := value.(type) {
	case string:
		return strconv.Quote(value)
	case bool, int64, float64:
		return fmt.Sprint(value)
	case map[string]any:
		return "a table"
	case []any:
		return "a list"
	}
	return "a date"
}

// parseYesNo parses yes, no, true or false. It returns fallback if value is nil. ok is false if value is invalid.
func parseYesNo(value any, fallback bool) (v, ok bool) {
	switch v := value.(type) {
	case nil:
		return fallback, true
	case bool:
		return v, true
	case string:
		return strings.EqualFold(v, "yes"), strings.EqualFold(v, "yes") || strings.EqualFold(v, "no")
	}
	return fallback, false
}

// readLimit reads a value that is a number or "any". It returns nil for "any", nil and invalid values.
func (r *reader) readLimit(i int, key string, value any) *int {
	switch v := value.(type) {
	case nil:
		return nil
	case int64:
		if n := int(v); n >= 0 && v < 1<<31 {
			return &n
		}
	case string:
		if strings.EqualFold(v, "any") {
			return nil
		}
	}
	r.addFault(r.lines.lineInNode(i, key), "%s: %s is neither a number nor \"any\"", key, valueText(value))
	return nil
}

// readMembers reads a list of names and numbers of users or groups, or "any". It returns nil for "any". A name that
// does not exist matches no user. If the list has only such names, the result is empty but not nil.
func (r *reader) readMembers(line int, key string, value any, find func(string) (int, error)) []int {
	if text, ok := value.(string); ok && strings.EqualFold(text, "any") || value == nil {
		return nil
	}
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	members := make([]int, 0, len(list))
	for _, item := range list {
		switch id, err := parseMember(item, find); {
		case err == nil:
			members = append(members, id)
		case errors.As(err, new(*memberError)):
			r.addFault(line, "%s: %v", key, err)
		default:
			r.addWarning(line, "%s: %v, so the name is ignored", key, err)
		}
	}
	slices.Sort(members)
	return members
}

func parseMember(item any, find func(string) (int, error)) (int, error) {
	switch v := item.(type) {
	case int64:
		if v >= 0 {
			return int(v), nil
		}
	case string:
		if n, err := strconv.ParseUint(v, 10, 32); err == nil {
			return int(n), nil
		}
		return find(v)
	}
	return 0, &memberError{item}
}
