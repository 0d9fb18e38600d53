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

// IsValid reports whether every value in g is within the limits for a claim that a helper reports.
func (g *Gang) IsValid() bool {
	return g.GangTerms.IsValid() && g.Party >= 0 && g.Party < g.Parties && g.Memory >= 0 && g.Memory <= maxGangMemory
}

// A GangJob is a job that shares CPUs in turns. Party says which slices of time belong to it.
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
		g.CPUs = slices.DeleteFunc(slices.Clone(g.CPUs), func(cpu int) bool { return u.isClaimedByNonGang(cpu) || v.isClaimedByNonGang(cpu) })
		if len(g.CPUs) > 0 {
			all = append(all, g)
		}
	}
	return all
}

// isClaimedByNonGang reports whether the CPU is claimed by a job that does not share CPUs in turns.
func (u Occupancy) isClaimedByNonGang(cpu int) bool {
	return idset.Set(u.BusyCPUs).Has(cpu) && !slices.ContainsFunc(u.GangCPUs, func(g GangCPUs) bool { return idset.Set(g.CPUs).Has(cpu) })
}

// CPUsInTurns returns the busy CPUs that a gang of this party can share, in ascending order. These are the CPUs
// that are used only by gangs of other parties.
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

// maxSharingClaims is the maximum number of claims of one party on one CPU that ForEachShared considers. At most one
// gang of a party can run on a CPU, but another user may have made false claims.
const maxSharingClaims = 2

// ForEachShared calls f for each pair of a node's claims that share a CPU in turns. It does so once for each shared
// CPU, and in both orders. A claim with an idle reason, such as being kept for a later attempt, needs no turns. It is
// never passed as other.
func ForEachShared(claims []Claim, f func(c, other *Claim)) {
	onCPU := make(map[int][]*Claim)
	forEachCPU := func(f func(c *Claim, cpu int)) {
		for i := range claims {
			for _, rank := range claims[i].Ranks {
				for _, cpu := range rank.CPUs {
					if claims[i].Gang != nil {
						f(&claims[i], cpu)
					}
				}
			}
		}
	}
	forEachCPU(func(c *Claim, cpu int) {
		same := 0
		for _, other := range onCPU[cpu] {
			if other.Gang.Parties == c.Gang.Parties && other.Gang.Party == c.Gang.Party {
				same++
			}
		}
		if c.IdleReason == "" && same < maxSharingClaims {
			onCPU[cpu] = append(onCPU[cpu], c)
		}
	})
	forEachCPU(func(c *Claim, cpu int) {
		for _, other := range onCPU[cpu] {
			if other.Gang.Parties == c.Gang.Parties && other.Gang.Party != c.Gang.Party && other.Key() != c.Key() {
				f(c, other)
			}
		}
	})
}
