package info

import (
	"fmt"
	"maps"

	"remshell/job"
	"remshell/pin"
)

// A layout is what the info keys of a command of a spawn say of mapping, ranking and binding, in the
// words of the options of those names.
type layout map[string]string

// layoutKeys are these keys, in the order in which they are read, and what each changes.
var layoutKeys = []struct {
	key  string
	read func(value string, to *job.Placement) (more bool, err error) // more: it says what only a command line can
}{
	{"map_by", readMapping},
	{"ppr", func(value string, to *job.Placement) (bool, error) { return readMapping("ppr:"+value, to) }},
	{"rank_by", func(value string, to *job.Placement) (bool, error) {
		return false, to.Layout.Rank.UnmarshalText([]byte(value))
	}},
	{"bind_to", readBinding},
}

// isLayoutKey reports whether an info key is one of these.
func isLayoutKey(key string) bool {
	for _, k := range layoutKeys {
		if k.key == key {
			return true
		}
	}
	return false
}

// readMapping takes a mapping. That ranks may share CPUs is so anyway where none is free.
func readMapping(value string, to *job.Placement) (more bool, err error) {
	var m pin.Mapping
	if err := m.UnmarshalText([]byte(value)); err != nil {
		return false, err
	}
	to.Layout.Map, to.RoundRobin = m, m.Level == pin.ByNode && m.PerObject == 0
	to.NoOversubscribe = to.NoOversubscribe || m.NoOversubscribe
	return m.Seq || m.File != "" || m.PEList != nil || m.Width > 0 || m.NoLocal || m.Threads || m.NoThread, nil
}

// readBinding takes a binding.
func readBinding(value string, to *job.Placement) (more bool, err error) {
	var b pin.Binding
	if err := b.UnmarshalText([]byte(value)); err != nil {
		return false, err
	}
	to.Layout.Bind, to.NoPin = b, b.None
	return b.Width > 0 || b.CPUList != nil || b.Sets != nil || b.RoundRobin || b.Report, nil
}

// applyLayout has a spawn placed as its info keys say; what they do not say is as in the job. All programs of
// a spawn are one group, and have one layout.
func applyLayout(wishes Constraints, to *job.Placement) error {
	for _, v := range wishes[1:] {
		if !maps.Equal(v.layout, wishes[0].layout) {
			return fmt.Errorf("info keys map_by, ppr, rank_by, bind_to: all programs of a spawn have one layout, and these two: %s and %s",
				wishes[0].layout, v.layout)
		}
	}
	for _, k := range layoutKeys {
		value, given := wishes[0].layout[k.key]
		if !given {
			continue
		}
		more, err := k.read(value, to)
		switch {
		case err != nil:
			return fmt.Errorf("info key %s: %w", k.key, err)
		case more:
			return fmt.Errorf("info key %s: %q says what only the command line may: a spawn names slot, node, socket, numa, a cache, core or hwthread", k.key, value)
		}
	}
	return nil
}

// String lists keys and values in the order of the keys.
func (l layout) String() (text string) {
	for _, k := range layoutKeys {
		if value, given := l[k.key]; given {
			text += fmt.Sprintf(", %s=%s", k.key, value)
		}
	}
	if text == "" {
		return "none"
	}
	return text[2:]
}
