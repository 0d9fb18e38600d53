package job

import (
	"slices"
	"time"

	"remshell/idset"
)

// A Gang says how a job takes turns with other jobs on CPUs that they share (--gang).
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

// DefaultGangTerms are the settings for gangs (jobs that share CPUs in turns) on nodes whose administrator has not
// set any.
var DefaultGangTerms = GangTerms{Parties: 4, Slice: 10 * time.Second}

// These constants limit the GangTerms that an administrator may set.
const (
	MaxParties = 16
	MinSlice   = time.Second
	MaxSlice   = time.Hour
)

// maxGangMemory is the maximum value of Gang.Memory. With this limit, sums of memory sizes do not overflow.
const maxGangMemory = 1 << 50

// IsValid reports whether the terms are within the limits for an administrator.
func (t GangTerms) IsValid() bool {
	return t.Parties >= 1 && t.Parties <= MaxParties && t.Slice >= MinSlice && t.Slice <= MaxSlice
}

// IsValid reports whether every value in g is one that a helper may write.
func (g *Gang) IsValid() bool {
	return g.GangTerms.IsValid() && g.Party >= 0 && g.Party < g.Parties && g.Memory >= 0 && g.Memory <= maxGangMemory
}

// A GangJob is a job that takes turns on CPUs, together with its party, which is the number of its turn.
type GangJob struct {
	Job   ID  `json:"job"`
	Party int `json:"party"`
}

// GangCPUs lists the CPUs of a node that a gang (a job that shares CPUs in turns) has claimed, in ascending order.
// It leaves out CPUs that are also claimed by a job that is not a gang.
type GangCPUs struct {
	GangJob
	CPUs []int `json:"cpus"`
}

// gangCPUs returns the CPUs that gangs in u and v have claimed. It leaves out CPUs that are also used by a job in u or
// v that is not a gang.
func gangCPUs(u, v Occupancy) (all []GangCPUs) {
	for _, g := range slices.Concat(u.GangCPUs, v.GangCPUs) {
		g.CPUs = slices.DeleteFunc(slices.Clone(g.CPUs), func(cpu int) bool { return u.usesWithoutTurns(cpu) || v.usesWithoutTurns(cpu) })
		if len(g.CPUs) > 0 {
			all = append(all, g)
		}
	}
	return all
}

// usesWithoutTurns reports whether the CPU is claimed by a job that does not share CPUs in turns.
func (u Occupancy) usesWithoutTurns(cpu int) bool {
	return idset.Set(u.BusyCPUs).Has(cpu) && !slices.ContainsFunc(u.GangCPUs, func(g GangCPUs) bool { return idset.Set(g.CPUs).Has(cpu) })
}

// CPUsInTurns returns the busy CPUs that a gang of the given party (the number of its turn) may share with other
// gangs, in ascending order.
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

// CPUs returns the CPUs of all ranks of the claim, in ascending order.
func (c Claim) CPUs() (cpus []int) {
	for _, rank := range c.Ranks {
		cpus = append(cpus, rank.CPUs...)
	}
	return idset.New(cpus...)
}

// TakesTurnsWith reports whether the jobs of both claims share a CPU on which they take turns.
func (c Claim) TakesTurnsWith(other Claim) bool {
	return c.WouldTakeTurnsWith(other) && slices.ContainsFunc(other.CPUs(), idset.Set(c.CPUs()).Has)
}

// WouldTakeTurnsWith reports whether the jobs of both claims would take turns on any CPUs that they share. It
// returns false if other has an idle reason, such as being kept for a later attempt, since such a claim needs no
// turns.
func (c Claim) WouldTakeTurnsWith(other Claim) bool {
	return other.IdleReason == "" && c.Gang != nil && other.Gang != nil && c.Key() != other.Key() && c.Gang.Parties == other.Gang.Parties && c.Gang.Party != other.Gang.Party
}
