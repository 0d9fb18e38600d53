package psi

import (
	"fmt"
	"slices"
	"strings"

	"remshell/job"
)

// A toggle is a switch that is on if its environment variable is set to any value (placement.md 1.2).
type toggle struct {
	variable string
	flag     func(*Flags) *bool
	negated  bool // the variable switches off what the option switches on
}

var toggles = []toggle{
	{"PSI_EXCLUSIVE", func(f *Flags) *bool { return f.Exclusive }, false},
	{"PSI_OVERBOOK", func(f *Flags) *bool { return f.Overbook }, false},
	{"PSI_LOOP_NODES_FIRST", func(f *Flags) *bool { return f.Loop }, false},
	{"PSI_WAIT", func(f *Flags) *bool { return f.Wait }, false},
	{"PSI_HOSTS_UNIQUE", func(f *Flags) *bool { return f.HostsUnique }, false},
	{"__PSI_NO_PINPROC", func(f *Flags) *bool { return f.Pin }, true},
	{"__PSI_NO_BINDMEM", func(f *Flags) *bool { return f.MemBind }, true},
	{"__PSI_NO_MEMBIND", func(f *Flags) *bool { return f.MemBind }, true},
}

// unsupported lists the variables of ParaStation that have no effect in mpiexec (placement.md 1.7).
var unsupported = []string{"PSI_FULL_PARTITION", "PSI_DYNAMIC", "__PSID_BATCH"}

// isOn reports whether the switch that an environment variable controls is on. The command-line option for the
// same switch overrides the variable.
func isOn(in Input, variable string) bool {
	i := slices.IndexFunc(toggles, func(t toggle) bool { return t.variable == variable })
	t := toggles[i]
	if flag := t.flag(&in.Flags); flag != nil {
		return *flag != t.negated
	}
	_, defined := in.Env(variable)
	return defined
}

// HostsUnique reports whether repeated names in a list of hosts are ignored (--hosts-unique).
func HostsUnique(in Input) bool { return isOn(in, "PSI_HOSTS_UNIQUE") }

// readToggles reads all switches. It warns about a variable with a value such as "no", since that value turns the
// switch on, too.
func (c *Settings) readToggles(in Input) {
	c.Oversubscribe = in.Flags.Oversubscribe
	c.Overbook = isOn(in, "PSI_OVERBOOK") && !c.Oversubscribe
	c.Exclusive = isOn(in, "PSI_EXCLUSIVE")
	c.NoOversubscribe = in.Flags.Overbook != nil && !*in.Flags.Overbook
	c.RoundRobin = isOn(in, "PSI_LOOP_NODES_FIRST")
	c.Wait = isOn(in, "PSI_WAIT")
	c.NoPin = isOn(in, "__PSI_NO_PINPROC")
	c.NoMemBind = isOn(in, "__PSI_NO_BINDMEM") || isOn(in, "__PSI_NO_MEMBIND")
	for _, t := range toggles {
		value, defined := in.Env(t.variable)
		if defined && t.flag(&in.Flags) == nil && meansNo(value) {
			c.addWarning("value-ignored", "%s=%q has the same effect as any other value of this variable: it switches the setting on; to switch it off, unset the variable", t.variable, value)
		}
	}
	if f := in.Flags.Exclusive; f != nil && !*f && c.Overbook {
		c.addWarning("overbook-implies-exclusive", "--no-exclusive has no effect, because --overbook requires exclusive use of nodes")
	}
	for _, name := range unsupported {
		if _, defined := in.Env(name); defined {
			c.addWarning("unsupported-variable", "the variable %s has no effect in mpiexec; unset it", name)
		}
	}
}

// meansNo reports whether a value is a word such as "no" or "off".
func meansNo(value string) bool {
	return slices.Contains([]string{"0", "no", "n", "false", "off"}, strings.ToLower(trimBlanks(value)))
}

func (c *Settings) addWarning(code, format string, args ...any) {
	c.Warnings = append(c.Warnings, job.Note{Code: code, Text: fmt.Sprintf(format, args...)})
}
