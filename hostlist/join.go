package hostlist

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Join merges all entries of a host into one entry and drops excluded hosts (rules HOST-4 to HOST-6). The hosts
// stay in the order of their first entries. The slot counts of a host's entries are added up. A host with one entry
// without a count keeps Slots 0. A host with several entries without counts gets one slot for each entry. It is an
// error if only some entries of a host have a count, or if attributes of a host contradict each other.
func Join(entries []Entry) ([]Entry, error) {
	var errs errorList
	index := make(map[string]int)
	var hosts []joinedHost
	excluded := excludedHosts(entries)
	for _, e := range entries {
		if e.IsRelative() {
			errs.addError(e.errorAt("%q refers to a host of an allocation, but mpiexec does not run inside an allocation", e.Host))
			continue
		}
		if e.Exclude || excluded[nameKey(e.Host)] || excluded[nameKey(e.Label())] {
			continue
		}
		i, seen := index[nameKey(e.Label())]
		if !seen {
			index[nameKey(e.Label())] = len(hosts)
			hosts = append(hosts, joinedHost{Entry: e, firstEntry: e, entryCount: 1})
			continue
		}
		if err := hosts[i].addEntry(e); err != nil {
			errs.addError(err)
		}
	}
	all := make([]Entry, len(hosts))
	for i, h := range hosts {
		all[i] = h.Entry
		if h.MaxSlots != 0 && h.MaxSlots < h.Slots {
			errs.addError(h.maxSlotsEntry.orElse(h.firstEntry).errorAt("the host has %d slots, but its slot limit is %d", h.Slots, h.MaxSlots))
		}
	}
	if len(all) == 0 && len(entries) > 0 {
		errs.addError(entries[0].errorAt("every host is excluded"))
	}
	return all, errs.asError()
}

// Unique returns the entries without those that repeat a host. It does not add up slots. It keeps all exclusions.
func Unique(entries []Entry) []Entry {
	seen := make(map[string]bool)
	var first []Entry
	for _, e := range entries {
		if e.Exclude || !seen[nameKey(e.Label())] {
			first = append(first, e)
		}
		seen[nameKey(e.Label())] = seen[nameKey(e.Label())] || !e.Exclude
	}
	return first
}

// MergeEntries merges two entries of one host that come from two lists. The result contains the slots of e.
// MergeEntries returns an error if the entries contradict each other.
func MergeEntries(e, other Entry) (Entry, error) {
	h := joinedHost{Entry: e, firstEntry: e}
	err := h.mergeFields(other)
	return h.Entry, err
}

// nameKey returns a host name in lower case, for comparison: DNS ignores case.
func nameKey(name string) string { return strings.ToLower(name) }

func excludedHosts(entries []Entry) map[string]bool {
	excluded := make(map[string]bool)
	for _, e := range entries {
		if e.Exclude {
			excluded[nameKey(e.Host)] = true
		}
	}
	return excluded
}

// A joinedHost is one host whose entries Join is merging.
type joinedHost struct {
	Entry
	firstEntry    Entry
	maxSlotsEntry optionalEntry // the entry that gave max_slots, if not the first
	entryCount    int
}

// An optionalEntry is an entry, or nil if there is no entry.
type optionalEntry struct{ *Entry }

func (p optionalEntry) orElse(e Entry) Entry {
	if p.Entry != nil {
		return *p.Entry
	}
	return e
}

// addEntry merges another entry of the host into h.
func (h *joinedHost) addEntry(e Entry) error {
	counted, hadCount := e.Slots != 0, h.firstEntry.Slots != 0
	switch {
	case counted && !hadCount:
		return e.errorAt("host %q has a slot count here, but none %s; give the slot count in both places or in neither", e.Label(), seenFrom(h.firstEntry, e))
	case hadCount && !counted:
		return e.errorAt("host %q has no slot count here, but one %s; give the slot count in both places or in neither", e.Label(), seenFrom(h.firstEntry, e))
	case counted:
		h.Slots += e.Slots
	default:
		h.entryCount++
		h.Slots = h.entryCount
	}
	if h.MaxSlots == 0 && e.MaxSlots != 0 {
		h.maxSlotsEntry = optionalEntry{&e}
	}
	return h.mergeFields(e)
}

// mergeFields merges all fields of e except its slots into h.
func (h *joinedHost) mergeFields(e Entry) error {
	for _, pair := range []struct {
		what string
		have *string
		new  string
	}{{"user", &h.User, e.User}, {"addr", &h.Address, e.Address}} {
		if err := h.setOnce(e, pair.what, pair.have, pair.new); err != nil {
			return err
		}
	}
	for _, pair := range []struct {
		what string
		have *int
		new  int
	}{{"port", &h.Port, e.Port}, {"max_slots", &h.MaxSlots, e.MaxSlots}} {
		if *pair.have != 0 && pair.new != 0 && *pair.have != pair.new {
			return h.conflictError(e, pair.what, fmt.Sprint(pair.new), fmt.Sprint(*pair.have))
		}
		*pair.have = max(*pair.have, pair.new)
	}
	h.Attrs = maps.Clone(h.Attrs)
	for _, name := range slices.Sorted(maps.Keys(e.Attrs)) {
		value := h.Attrs[name]
		if err := h.setOnce(e, name, &value, e.Attrs[name]); err != nil {
			return err
		}
		if h.Attrs == nil {
			h.Attrs = make(map[string]string)
		}
		h.Attrs[name] = value
	}
	h.Env = slices.Concat(h.Env, e.Env)
	return nil
}

func (h *joinedHost) setOnce(e Entry, noun string, field *string, value string) error {
	if *field != "" && value != "" && *field != value {
		return h.conflictError(e, noun, value, *field)
	}
	if value != "" {
		*field = value
	}
	return nil
}

func (h *joinedHost) conflictError(e Entry, key, newValue, oldValue string) error {
	return e.errorAt("host %q has %s=%s here, but %s=%s %s; to use the host as two nodes, add alias=NAME",
		e.Label(), key, newValue, key, oldValue, seenFrom(h.firstEntry, e))
}

// seenFrom returns the position of e for a message whose subject is another entry. It leaves out the file name if both
// entries are in the same file.
func seenFrom(e, other Entry) string {
	switch {
	case e.File != other.File:
		return "at " + e.errorAt("").Where()
	case e.Line == 0:
		return fmt.Sprintf("at offset %d", e.Col)
	}
	return fmt.Sprintf("at line %d", e.Line)
}

// Filter returns the hosts that are named in list, in the order of list. hosts come from a file and are already joined.
// A slot count, user or address in list takes precedence over the same field in hosts. If list contains only
// exclusions, Filter returns the remaining hosts in their original order. A name in list that is not among hosts is an
// error (rule HOST-9).
func Filter(hosts, list []Entry) ([]Entry, error) {
	if !hasHost(list) {
		return Join(slices.Concat(hosts, list))
	}
	wanted, err := Join(list)
	if err != nil {
		return nil, err
	}
	index := make(map[string]int)
	for i, h := range slices.Backward(hosts) {
		index[nameKey(h.Host)] = i
	}
	for i, h := range hosts {
		index[nameKey(h.Label())] = i
	}
	var errs errorList
	all := make([]Entry, 0, len(wanted))
	for _, w := range wanted {
		i, ok := index[nameKey(w.Label())]
		if !ok {
			errs.addError(w.errorAt("host %q is not in the host file %s", w.Label(), fileOf(hosts)))
			continue
		}
		all = append(all, withListEntry(hosts[i], w))
	}
	return all, errs.asError()
}

// withListEntry returns the host h with the slots, user and address of w, which is the entry in the list. If a field of
// w is not set, the result keeps the field of h.
func withListEntry(h, w Entry) Entry {
	if w.Slots != 0 {
		h.Slots = w.Slots
	}
	if w.User != "" {
		h.User = w.User
	}
	if w.Address != "" {
		h.Address = w.Address
	}
	return h
}

func fileOf(hosts []Entry) string {
	if len(hosts) == 0 {
		return ""
	}
	return hosts[0].File
}
