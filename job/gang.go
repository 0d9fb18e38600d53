package job

import (
	"slices"
	"time"

	"remshell/idset"
)

// A Gang says how a job takes turns with other jobs on the CPUs that it shares with them (--gang).
type Gang struct {
	Party int `json:"party"` // from 0 to Parties-1
	GangTerms
	Memory int64 `json:"memory,omitempty"` // bytes that its ranks on the node may need by --mem-per-rank; 0: not given
}

// GangTerms are the settings that all gangs (jobs that share CPUs in turns) on a node have in common.
type GangTerms struct {
	Parties int           `json:"parties"` // number of parties; 0: the node was not asked
	Slice   time.Duration `json:"slice"`   // length of a slice, in ns, when the claim was made
}

// DefaultGangTerms are the terms on nodes whose administrator has not set any.
var DefaultGangTerms = GangTerms{Parties: 4, Slice: 10 * time.Second}

// Limits of the terms that an administrator may set.
const (
	MaxParties = 16
	MinSlice   = time.Second
	MaxSlice   = time.Hour
)

// maxGangMemory is the largest Gang.Memory. Sums of it do not overflow.
const maxGangMemory = 1 << 50

// IsValid reports whether the terms are within the limits.
func (t GangTerms) IsValid() bool {
	return t.Parties >= 1 && t.Parties <= MaxParties && t.Slice >= MinSlice && t.Slice <= MaxSlice
}

// IsValid reports whether a helper can have written g.
func (g *Gang) IsValid() bool {
	return g.GangTerms.IsValid() && g.Party >= 0 && g.Party < g.Parties && g.Memory >= 0 && g.Memory <= maxGangMemory
}

// A GangJob is a job that takes turns, with its party.
type GangJob struct {
	Job   ID  `json:"job"`
	Party int `json:"party"`
}

// GangCPUs are the CPUs of a node that a gang (a job that shares CPUs in turns) has claimed, ascending. CPUs
// that a job which is no gang has claimed, too, are left out.
type GangCPUs struct {
	GangJob
	CPUs []int
}

// gangCPUs returns the CPUs that gangs in u and v have claimed. It leaves out CPUs that another job, which is
// no gang, uses in u or v.
func gangCPUs(u, v Occupancy) (all []GangCPUs) {
	for _, g := range slices.Concat(u.GangCPUs, v.GangCPUs) {
		g.CPUs = slices.DeleteFunc(slices.Clone(g.CPUs), func(cpu int) bool { return u.usesWithoutTurns(cpu) || v.usesWithoutTurns(cpu) })
		if len(g.CPUs) > 0 {
			all = append(all, g)
		}
	}
	return all
}

// usesWithoutTurns reports whether a job that does not share CPUs in turns has claimed a CPU.
func (u Occupancy) usesWithoutTurns(cpu int) bool {
	return idset.Set(u.BusyCPUs).Has(cpu) && !slices.ContainsFunc(u.GangCPUs, func(g GangCPUs) bool { return idset.Set(g.CPUs).Has(cpu) })
}

// CPUsInTurns returns the busy CPUs that a gang of the given party may share with other gangs in turns, in
// ascending order.
func (u Occupancy) CPUsInTurns(party int) (cpus []int) {
	var own []int
	for _, g := range u.GangCPUs {
		if g.Party == party {
			own = append(own, g.CPUs...)
		} else {
			cpus = append(cpus, g.CPUs...)
		}
	}
	return slices.DeleteFunc(idset.New(cpus...), idset.New(own...).Has)
}

// CPUs returns the CPUs of all ranks of the claim, ascending.
func (c Claim) CPUs() (cpus []int) {
	for _, rank := range c.Ranks {
		cpus = append(cpus, rank.CPUs...)
	}
	return idset.New(cpus...)
}

// TakesTurnsWith reports whether the jobs of both claims share a CPU and take turns on it.
func (c Claim) TakesTurnsWith(other Claim) bool {
	return c.WouldTakeTurnsWith(other) && slices.ContainsFunc(other.CPUs(), idset.Set(c.CPUs()).Has)
}

// WouldTakeTurnsWith reports whether the jobs of both claims take turns on CPUs that they share, if there are any. A claim
// for a later attempt needs no turns.
func (c Claim) WouldTakeTurnsWith(other Claim) bool {
	return other.IdleReason == "" && c.Gang != nil && other.Gang != nil && c.Key() != other.Key() && c.Gang.Parties == other.Gang.Parties && c.Gang.Party != other.Gang.Party
}
