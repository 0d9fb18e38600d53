package nodeset

import (
	"maps"
	"slices"
	"strings"
)

// A Value is the value of one attribute of a node. It consists of labels, or is a number. The zero value means
// unknown.
type Value struct {
	Labels []string
	Number Number
}

// Known reports whether the value is known. The number 0 counts as unknown.
func (v Value) Known() bool { return len(v.Labels) > 0 || v.Number > 0 }

// Attributes maps names of attributes, in upper case, to values.
type Attributes map[string]Value

// These are the attributes that every cluster has.
const (
	Feature   = "FEATURE"
	ProcSpeed = "PROCSPEED"
	Memory    = "MEMORY"
	Network   = "NETWORK"
	Class     = "CLASS"
	Arch      = "ARCH"
	CPUModel  = "CPUMODEL"
	NetSpeed  = "NETSPEED"
	CPUs      = "CPUS"
	GPUs      = "GPUS"
	GPUModel  = "GPUMODEL"
)

// A Kind says how the values of a node attribute are written and compared.
type Kind struct {
	Numeric bool
	AnyCase bool              // labels are compared without regard to case
	Units   map[string]Number // units of a number, in upper case
	Probed  bool              // the value comes from a probe; it is unknown for a node that is down
}

// builtIn contains the kinds of the attributes that every cluster has.
var builtIn = map[string]Kind{
	Feature:   {},
	ProcSpeed: {Numeric: true, Probed: true, Units: map[string]Number{"": oneUnit, "MHZ": oneUnit, "GHZ": 1000 * oneUnit}},
	Memory: {Numeric: true, Probed: true, Units: map[string]Number{"": oneUnit, "K": oneUnit / 1024, "M": oneUnit, "G": 1024 * oneUnit, "T": 1024 * 1024 * oneUnit,
		"KB": oneUnit / 1024, "MB": oneUnit, "GB": 1024 * oneUnit, "TB": 1024 * 1024 * oneUnit}},
	Network:  {AnyCase: true, Probed: true},
	Class:    {},
	Arch:     {AnyCase: true, Probed: true},
	CPUModel: {AnyCase: true, Probed: true},
	NetSpeed: {Numeric: true, Probed: true, Units: map[string]Number{"": oneUnit, "M": oneUnit, "G": 1000 * oneUnit}},
	CPUs:     {Numeric: true, Probed: true, Units: plain},
	GPUs:     {Numeric: true, Probed: true, Units: plain},
	GPUModel: {AnyCase: true, Probed: true},
}

// plain is the value of Kind.Units for an attribute whose numbers have no unit.
var plain = map[string]Number{"": oneUnit}

// Kinds maps the names of a cluster's attributes, in upper case, to their kinds.
type Kinds map[string]Kind

// KindsOf returns the kinds of all attributes: the built-in ones, and attributes that only this cluster has. local
// returns the attributes of node i. An attribute must be a string on all nodes or a number on all nodes. mixed is the
// name of the first attribute that breaks this rule, or "".
func KindsOf(nodes int, local func(i int) Attributes) (kinds Kinds, mixed string) {
	kinds = maps.Clone(Kinds(builtIn))
	for i := range nodes {
		for name, value := range local(i) {
			kind, known := kinds[name]
			numeric := value.Labels == nil
			if !known && numeric {
				kinds[name] = Kind{Numeric: true, Units: plain}
			} else if !known {
				kinds[name] = Kind{}
			} else if kind.Numeric != numeric && (mixed == "" || name < mixed) {
				mixed = name
			}
		}
	}
	return kinds, mixed
}

// Names returns the names of the attributes: first the attributes that every cluster has, and then the
// others. Both parts are sorted.
func (k Kinds) Names() []string {
	names := slices.Sorted(maps.Keys(builtIn))
	for _, name := range slices.Sorted(maps.Keys(k)) {
		if _, of := builtIn[name]; !of {
			names = append(names, name)
		}
	}
	return names
}

// CanonicalName returns the name of an attribute in upper case.
func CanonicalName(name string) string { return strings.ToUpper(name) }
