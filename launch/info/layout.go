package info

import (
	"fmt"
	"maps"

	"remshell/job"
	"remshell/pin"
)

// A layout contains the values of the info keys for mapping, ranking and binding. Each value has the syntax of the
// option with the same name.
type layout map[string]string

// layoutKeys lists the info keys for the layout of ranks, in the order in which they are applied.
var layoutKeys = []struct {
	key  string
	read func(value string, to *job.Placement) (unsupported bool, err error) // unsupported: the value is allowed only on the command line
}{
	{"map_by", readMapping},
	{"ppr", func(value string, to *job.Placement) (bool, error) { return readMapping("ppr:"+value, to) }},
	{"rank_by", func(value string, to *job.Placement) (bool, error) {
		return false, to.Layout.Rank.UnmarshalText([]byte(value))
	}},
	{"bind_to", readBinding},
}

// isLayoutKey reports whether an info key is in layoutKeys.
func isLayoutKey(key string) bool {
	for _, k := range layoutKeys {
		if k.key == key {
			return true
		}
	}
	return false
}

// readMapping parses a mapping and stores it in placement. It ignores the modifier that allows oversubscription,
// because spawned ranks share CPUs anyway if no CPU is free. unsupported is true for a mapping that only the command
// line may request.
func readMapping(value string, placement *job.Placement) (unsupported bool, err error) {
	var m pin.Mapping
	if err := m.UnmarshalText([]byte(value)); err != nil {
		return false, err
	}
	placement.Layout.Map, placement.RoundRobin = m, m.IsCyclic()
	placement.NoOversubscribe = placement.NoOversubscribe || m.NoOversubscribe
	return m.Seq || m.File != "" || m.PEList != nil || m.Width > 0 || m.NoLocal || m.Threads || m.NoThread, nil
}

// readBinding parses a binding and stores it in placement. unsupported is true for a binding that only the command line
// may request.
func readBinding(value string, placement *job.Placement) (unsupported bool, err error) {
	var b pin.Binding
	if err := b.UnmarshalText([]byte(value)); err != nil {
		return false, err
	}
	placement.Layout.Bind, placement.NoPin = b, b.None
	return b.Width > 0 || b.CPUList != nil || b.Sets != nil || b.RoundRobin || b.Report, nil
}

// applyLayout applies the info keys about mapping, ranking and binding to a spawn. If a key is missing, the job's own
// setting applies. All commands of a spawn must have the same layout, because they are one group of ranks.
func applyLayout(constraints Constraints, placement *job.Placement) error {
	for _, v := range constraints[1:] {
		if !maps.Equal(v.layout, constraints[0].layout) {
			return fmt.Errorf(`info keys "map_by", "ppr", "rank_by", "bind_to": all programs of a spawn need the same values, but one has %s and another has %s`,
				constraints[0].layout, v.layout)
		}
	}
	for _, k := range layoutKeys {
		value, given := constraints[0].layout[k.key]
		if !given {
			continue
		}
		unsupported, err := k.read(value, placement)
		switch {
		case err != nil:
			return fmt.Errorf("info key %q: %w", k.key, err)
		case unsupported:
			return fmt.Errorf("info key %q: %q is not allowed in a spawn; allowed: slot, node, socket, numa, a cache, core or hwthread", k.key, value)
		}
	}
	return nil
}

// String returns the keys and values as text, in the order of layoutKeys.
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
