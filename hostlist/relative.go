package hostlist

import (
	"slices"
	"strconv"
	"strings"
)

// This file reads hosts that are named by their position in another list, as PRRTE does for the nodes of a
// batch allocation (cli.md 4.1):
//
//	+n2     the third node
//	+e:2    two nodes that are not used otherwise; +e: all of those

// ParseRelative is like Parse, for a list that may contain relative names such as +n2. The caller must pass the
// entries to Resolve before using them.
func ParseRelative(origin, expr string) ([]Entry, error) {
	return parse(cursor{sourceLine: sourceLine{file: origin, text: expr}, isList: true, allowsRelative: true}, maxNames)
}

// IsRelative reports whether an entry has a relative name such as +n2, which refers to a position in another list.
func (e Entry) IsRelative() bool { return strings.HasPrefix(e.Host, "+") }

// readRelativeName parses "+nK", "+e" or "+e:K" and returns the position after it.
func (c *cursor) readRelativeName(m *hostExpr, start, limit int) (int, error) {
	word := strings.ToLower(c.text[start:limit])
	if !c.allowsRelative {
		return 0, c.errorAt(start, limit, "%q refers to a host of an allocation, but mpiexec does not run inside an allocation", c.text[start:limit])
	}
	end := limit
	if i := strings.IndexByte(word, ':'); i >= 0 && word[:i] != "+e" { // slots, user and address follow
		end, word = start+i, word[:i]
	}
	m.names = []string{word}
	if _, _, ok := parseRelativeName(word); !ok {
		return 0, c.errorAt(start, end, "%q is not valid; write +nK with a number K, or +e", c.text[start:end])
	}
	return end, nil
}

// parseRelativeName parses a relative name. For "+nK", index is the position of the host in the allocation. For
// "+e", index is -1 and count is the number of hosts, or 0 for all hosts. ok is false if the name is invalid.
func parseRelativeName(name string) (index, count int, ok bool) {
	if number, one := strings.CutPrefix(name, "+n"); one {
		index, err := strconv.Atoi(number)
		return index, 1, allDigits(number) && err == nil
	}
	if name == "+e" {
		return -1, 0, true
	}
	number, hasCount := strings.CutPrefix(name, "+e:")
	count, err := strconv.Atoi(number)
	return -1, count, hasCount && allDigits(number) && err == nil && count > 0
}

// Resolve replaces the relative entries of a list with hosts of an allocation. Slots, user and address of a relative
// entry replace the same fields of the host. "+e" stands for hosts of the allocation that neither this list nor
// earlierLists name.
func Resolve(list, allocation []Entry, earlierLists ...Entry) ([]Entry, error) {
	var errs errorList
	used := make(map[string]bool)
	for _, e := range slices.Concat(earlierLists, list) {
		if !e.IsRelative() && !e.Exclude {
			used[nameKey(e.Label())] = true
		}
	}
	var all []Entry
	if !hasHost(list) { // a list of exclusions means all other hosts
		all = slices.Clone(allocation)
	}
	for _, e := range list {
		if !e.IsRelative() {
			all = append(all, e)
			continue
		}
		found, err := e.resolveRelative(allocation, used)
		if err != nil {
			errs.addError(err)
		}
		for _, f := range found {
			used[nameKey(f.Label())] = true
			all = append(all, e.withHost(f))
		}
	}
	return all, errs.asError()
}

// resolveRelative returns the hosts of the allocation to which one relative entry refers.
func (e Entry) resolveRelative(allocation []Entry, usedHosts map[string]bool) ([]Entry, error) {
	index, count, _ := parseRelativeName(e.Host)
	n := len(allocation)
	switch {
	case n == 0:
		return nil, e.errorAt("%q refers to a host of an allocation, but mpiexec does not run inside an allocation", e.Host)
	case index >= n:
		return nil, e.errorAt("%q is not in the allocation, which has %d nodes, counted from 0", e.Host, n)
	case index >= 0:
		return allocation[index : index+1], nil
	}
	empty := slices.DeleteFunc(slices.Clone(allocation), func(a Entry) bool { return usedHosts[nameKey(a.Label())] })
	if len(empty) < max(count, 1) {
		return nil, e.errorAt("%q asks for too many empty nodes: %d of the %d nodes of the allocation are empty", e.Host, len(empty), n)
	}
	if count > 0 {
		empty = empty[:count]
	}
	return empty, nil
}

// withHost returns a copy of host. Fields that the relative entry e sets replace the fields of host.
func (e Entry) withHost(host Entry) Entry {
	host = withListEntry(host, e)
	host.Exclude = e.Exclude
	if e.Exclude {
		host.Slots, host.User = 0, ""
	}
	host.File, host.Line, host.Col, host.text, host.width = e.File, e.Line, e.Col, e.text, e.width
	return host
}
