package hostlist

import (
	"slices"
	"strconv"
	"strings"
)

// This file reads hosts that are named by their place in a list of others, as PRRTE does for
// the nodes of a batch allocation (cli.md 4.1):
//
//	+n2     the third of them
//	+e:2    two that are not named before; +e: all of those

// ParseRelative is Parse for a list that may name hosts so. They have to be resolved before
// anything else is done with them: see Resolve.
func ParseRelative(origin, expr string) ([]Entry, error) {
	return parse(cursor{inclusion: inclusion{file: origin, text: expr}, list: true, relative: true}, maxNames)
}

// Relative reports whether an entry names a place in another list.
func (e Entry) Relative() bool { return strings.HasPrefix(e.Host, "+") }

// relativeName reads "+nK", "+e" or "+e:K", and returns where it ends.
func (c *cursor) relativeName(m *mention, from, to int) (int, error) {
	word := strings.ToLower(c.text[from:to])
	if !c.relative {
		return 0, c.fault(from, to, "%q counts the nodes of a batch allocation, and there is none here", c.text[from:to])
	}
	end := to
	if i := strings.IndexByte(word, ':'); i >= 0 && word[:i] != "+e" { // slots and so on
		end, word = from+i, word[:i]
	}
	m.names = []string{word}
	if _, _, ok := placeOf(word); !ok {
		return 0, c.fault(from, end, "%q is neither +n and a number nor +e", c.text[from:end])
	}
	return end, nil
}

// placeOf takes the name of a relative entry apart: one host and its index, or a number of
// hosts; 0: all.
func placeOf(name string) (index, count int, ok bool) {
	if number, one := strings.CutPrefix(name, "+n"); one {
		index, err := strconv.Atoi(number)
		return index, 1, digits(number) && err == nil
	}
	if name == "+e" {
		return -1, 0, true
	}
	number, some := strings.CutPrefix(name, "+e:")
	count, err := strconv.Atoi(number)
	return -1, count, some && digits(number) && err == nil && count > 0
}

// Resolve puts the hosts of an allocation in the place of the relative entries of a list. What
// an entry says of its host beside the name wins. Those of earlier lists are not empty any more.
func Resolve(list, allocation []Entry, earlier ...Entry) ([]Entry, error) {
	var bad faults
	used := make(map[string]bool)
	for _, e := range slices.Concat(earlier, list) {
		if !e.Relative() && !e.Exclude {
			used[key(e.Label())] = true
		}
	}
	var all []Entry
	if !hasHost(list) { // all but some
		all = slices.Clone(allocation)
	}
	for _, e := range list {
		if !e.Relative() {
			all = append(all, e)
			continue
		}
		found, err := e.resolve(allocation, used)
		if err != nil {
			bad.add(err)
		}
		for _, f := range found {
			used[key(f.Label())] = true
			all = append(all, e.at(f))
		}
	}
	return all, bad.err()
}

// resolve finds the hosts that one relative entry names.
func (e Entry) resolve(allocation []Entry, used map[string]bool) ([]Entry, error) {
	index, count, _ := placeOf(e.Host)
	n := len(allocation)
	switch {
	case n == 0:
		return nil, e.fault("%q counts the nodes of a batch allocation, and there is none here", e.Host)
	case index >= n:
		return nil, e.fault("%q is none of the %d nodes of the allocation, which count from 0", e.Host, n)
	case index >= 0:
		return allocation[index : index+1], nil
	}
	empty := slices.DeleteFunc(slices.Clone(allocation), func(a Entry) bool { return used[key(a.Label())] })
	if len(empty) < max(count, 1) {
		return nil, e.fault("%q: %d of the %d nodes of the allocation are empty", e.Host, len(empty), n)
	}
	if count > 0 {
		empty = empty[:count]
	}
	return empty, nil
}

// at is what a relative entry says, of the host that it means.
func (e Entry) at(host Entry) Entry {
	host = overlay(host, e)
	host.Exclude = e.Exclude
	if e.Exclude {
		host.Slots, host.User = 0, ""
	}
	host.File, host.Line, host.Col, host.text, host.width = e.File, e.Line, e.Col, e.text, e.width
	return host
}
