package nodeset

import (
	"maps"
	"slices"
	"strings"
)

// A Value is what a node has of one attribute: labels, or a number. The zero value is unknown.
type Value struct {
	Labels []string
	Number Number
}

// Known reports whether a node has any of it. A number of 0 is none.
func (v Value) Known() bool { return len(v.Labels) > 0 || v.Number > 0 }

// Attributes are values by the names of attributes, in upper case.
type Attributes map[string]Value

// The attributes that every cluster has.
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

// A Kind says how values of an attribute are written and compared.
type Kind struct {
	Numeric bool
	AnyCase bool              // of labels
	Units   map[string]Number // what stands behind a number, in upper case
	Probed  bool              // a probe delivers it: of a node that is down it is not known
}

// builtIn are the kinds of the attributes that every cluster has.
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

// plain numbers have no unit.
var plain = map[string]Number{"": oneUnit}

// Kinds are the attributes of a cluster, by name in upper case.
type Kinds map[string]Kind

// KindsOf are those that every cluster has, and those of its own that its nodes have: local is
// called for the attributes of each. An attribute is text everywhere or a number everywhere;
// mixed is one that is not, empty: all are.
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

// Names are those of the attributes: first those that every cluster has.
func (k Kinds) Names() []string {
	names := slices.Sorted(maps.Keys(builtIn))
	for _, name := range slices.Sorted(maps.Keys(k)) {
		if _, of := builtIn[name]; !of {
			names = append(names, name)
		}
	}
	return names
}

// CanonicalName is the name of an attribute as Attributes have it.
func CanonicalName(name string) string { return strings.ToUpper(name) }
